"""The learned position tables of a model."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from patchword.core.grid import Grid
from patchword.layers import RelativeTable
from patchword.layers.embedding.absolute import LearnedPositions
from patchword.layers.text.model import TextEmbedding


@dataclass(frozen=True)
class PositionTable:
    """A learned table of positions.

    name: of the module. kind: a vector per token of a text or of a grid of patches, or a bias per offset and head.
    grid: of the patches or of one window; None for texts. table: (tokens, width), leading tokens first; relative
    biases are (2 height - 1, 2 width - 1, heads), indexed by the query's position minus the key's.
    """

    name: str
    kind: Literal["text", "patches", "relative"]
    grid: Grid | None
    table: Tensor


def position_tables(model: nn.Module) -> list[PositionTable]:
    """Return the tables in the order of the modules; none if the model learns no table of positions."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, LearnedPositions):
            found.append(PositionTable(name, "patches", module.grid, module.table.detach()[0]))
        elif isinstance(module, RelativeTable):
            window = module.window
            sides = (2 * window.height - 1, 2 * window.width - 1)
            found.append(PositionTable(name, "relative", window, module.table.detach().unflatten(0, sides)))
        elif isinstance(module, TextEmbedding) and isinstance(module.positions, nn.Embedding):
            table = module.positions.weight.detach()[module.first :]
            found.append(PositionTable(name, "text", None, table))
    return found
