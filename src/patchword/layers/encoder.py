"""A sequence of blocks."""

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.layers.activation_checkpointing import CheckpointedBlock


class Encoder(CheckpointedBlock):
    """Runs its blocks in `order`: by default once each; ALBERT runs one block twelve times."""

    def __init__(self, blocks: Iterable[nn.Module], order: Sequence[int] | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.order = tuple(order if order is not None else range(len(self.blocks)))

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        for index in self.order:
            tokens = self.run(self.blocks[index], tokens, scope)
        return tokens

    def states(self, tokens: Tensor, scope: Scope) -> list[Tensor]:
        """Return the input of the first block and the output of every block."""
        found = [tokens]
        for index in self.order:
            found.append(self.blocks[index](found[-1], scope))
        return found
