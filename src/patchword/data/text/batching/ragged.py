"""Rows of different lengths in one array."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths in one tensor.

    values: the concatenated rows. offsets: (rows + 1,) int64, the start of each row and the end of the last.
    """

    values: Tensor
    offsets: Tensor

    @classmethod
    def of(cls, rows: Sequence[Any], dtype: torch.dtype = torch.int32) -> "Ragged":
        """Build from arrays or lists of numbers."""
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        joined = np.concatenate([np.asarray(row) for row in rows]) if len(rows) else np.zeros(0)
        return cls(torch.as_tensor(joined).to(dtype), ends(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Tensor:
        return self.offsets.diff()

    def row(self, index: int) -> Tensor:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def take(self, index: Tensor) -> "Ragged":
        """Return the rows with these indices, in this order."""
        lengths = self.lengths[index]
        offsets = ends(lengths)
        shift = (self.offsets[index] - offsets[:-1]).repeat_interleave(lengths)
        return Ragged(self.values[torch.arange(int(offsets[-1])) + shift], offsets)

    def parts(self, sizes: Sequence[int]) -> "list[Ragged]":
        """Split into consecutive groups of rows with these sizes, without copying values."""
        places = [0, *accumulate(sizes)]
        begins = self.offsets[places].tolist()
        return [
            Ragged(self.values[begin:end], self.offsets[first : last + 1] - begin)
            for (first, last), (begin, end) in zip(pairwise(places), pairwise(begins), strict=True)
        ]

    def padded(self, fill: int) -> Tensor:
        """Return (rows, longest), padded with `fill`."""
        longest = int(self.lengths.max()) if len(self) else 0
        table = torch.full((len(self), longest), fill, dtype=self.values.dtype)
        table[self.mask()] = self.values
        return table

    def mask(self) -> Tensor:
        """Return (rows, longest), True where a row has a value."""
        longest = int(self.lengths.max()) if len(self) else 0
        return torch.arange(longest) < self.lengths[:, None]


def ends(lengths: Tensor) -> Tensor:
    """Convert lengths to offsets: (rows,) -> (rows + 1,)."""
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def ranges(starts: Numbers, lengths: Numbers) -> Numbers:
    """Return the concatenated ranges start, start + 1, ..., start + length - 1."""
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + (starts - before).repeat(lengths)
