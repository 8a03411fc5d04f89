"""What a model notes down while it learns."""

from collections import defaultdict

import torch
from torch import Tensor, nn


class Statistics:
    """Running means, ranges, counts: all that a checkpoint holds of a model besides its weights.

    They lie one behind the other in a tensor for each type, since hundreds of small copies would keep a GPU waiting.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        kept = model.state_dict(keep_vars=True)
        self.names = {name for name, _ in model.named_buffers() if name in kept}

    def noted(self) -> list[Tensor]:
        """as they are now"""
        return [_flat(group) for group in self._groups()]

    @torch.no_grad()
    def put(self, earlier: list[Tensor], bad: Tensor | None = None) -> None:
        """They are again as they were, or, with `bad`, only where that is True: the host need not know."""
        for group, before in zip(self._groups(), earlier, strict=True):
            values = before if bad is None else torch.where(bad, before, _flat(group))
            pieces = values.split([buffer.numel() for buffer in group])
            torch._foreach_copy_(group, [piece.view_as(part) for piece, part in zip(pieces, group, strict=True)])

    def _groups(self) -> list[list[Tensor]]:
        groups: dict[torch.dtype, list[Tensor]] = defaultdict(list)
        for name, buffer in self.model.named_buffers() if self.names else ():
            if name in self.names:
                groups[buffer.dtype].append(buffer)
        return list(groups.values())


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])
