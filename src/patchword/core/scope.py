"""The context that a sublayer may read besides its own tokens."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from patchword.core.grid import Grid
from patchword.core.text import Packed


@dataclass(frozen=True)
class Scope:
    """Masks, memory, grid and cache; passed unchanged through all blocks of an encoder."""

    mask: Tensor | None = None  # True where a query may attend to a key; broadcasts to (batch, heads, queries, keys)
    memory: Tensor | None = None  # (batch, keys, width): an encoder's output, the keys and values of cross-attention
    memory_mask: Tensor | None = None
    grid: Grid | None = None
    packed: Packed | None = None  # the boundaries of the texts, if they are packed into one sequence
    cache: Any = None  # layers.attention.cache.Cache: keys and values of earlier tokens, for incremental decoding
