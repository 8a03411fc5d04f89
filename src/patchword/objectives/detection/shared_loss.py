"""What the images of a batch share in its loss: random keys and the counts that losses are divided by."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Keys = Callable[[tuple[int, int], torch.device], Tensor]


def random_keys(shape: tuple[int, int], device: torch.device) -> Tensor:
    """Return random numbers in [0, 1) from torch's generator."""
    return torch.rand(shape, device=device)


def own_count(count: Tensor) -> Tensor:
    """Return the count of a batch that one process has alone."""
    return count


@dataclass(frozen=True)
class SharedLoss:
    """keys: returns random keys in [0, 1), (batch, boxes); the boxes with the largest keys are sampled. A function that
    depends on the image alone makes the choice independent of the other images of the batch.
    total: returns the sum of a count over all processes that share the batch. Losses are divided by it, so that the
    losses of the processes add up to the loss of the whole batch.
    """

    keys: Keys = random_keys
    total: Callable[[Tensor], Tensor] = own_count


ONE_PROCESS = SharedLoss()
