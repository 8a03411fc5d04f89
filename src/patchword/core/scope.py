"""What a sublayer may look at besides its own tokens."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from patchword.core.grid import Grid
from patchword.core.text import Packed


@dataclass(frozen=True)
class Scope:
    """Travels unchanged through all the blocks of an encoder."""

    mask: Tensor | None = None  # True where a query may read a key; broadcasts to (batch, heads, queries, keys)
    memory: Tensor | None = None  # (batch, keys, width): an encoder's output, read by cross-attention
    memory_mask: Tensor | None = None
    grid: Grid | None = None
    rows: Packed | None = None  # where each text lies, if the tokens of all lie in one row
    cache: Any = None  # layers.attention.cache.Cache: what was read before, by attention that goes on from there
