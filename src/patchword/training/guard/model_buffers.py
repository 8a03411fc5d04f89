"""Saves and restores the buffers of a model around a step."""

from collections import defaultdict

import torch
from torch import Tensor, nn


class ModelBuffers:
    """The persistent buffers of a model: running means, ranges, counts.

    They are copied into one flat tensor per dtype, since hundreds of small copies would leave a GPU idle.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        persistent = model.state_dict(keep_vars=True)
        self.names = {name for name, _ in model.named_buffers() if name in persistent}

    def saved(self) -> list[Tensor]:
        """Return a copy of their current values."""
        return [_flat(group) for group in self._groups()]

    @torch.no_grad()
    def restore(self, saved: list[Tensor], where: Tensor | None = None) -> None:
        """Set the buffers to saved values. where: (), only if it is True, decided on the device without a sync."""
        for group, before in zip(self._groups(), saved, strict=True):
            values = before if where is None else torch.where(where, before, _flat(group))
            parts = values.split([buffer.numel() for buffer in group])
            torch._foreach_copy_(group, [part.view_as(buffer) for part, buffer in zip(parts, group, strict=True)])

    def _groups(self) -> list[list[Tensor]]:
        groups: dict[torch.dtype, list[Tensor]] = defaultdict(list)
        for name, buffer in self.model.named_buffers() if self.names else ():
            if name in self.names:
                groups[buffer.dtype].append(buffer)
        return list(groups.values())


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])
