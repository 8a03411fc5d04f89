"""The batch of a training step, of any kind of data."""

from collections.abc import Sequence
from typing import Protocol

import torch


class Batch(Protocol):
    """The input of a step. `weight`: the number of terms in the mean of its loss (examples, masked words, tags)."""

    @property
    def weight(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def split(self, parts: int) -> Sequence["Batch"]:
        """Return the batch as `parts` micro-batches, or fewer if it has fewer samples."""
        ...
