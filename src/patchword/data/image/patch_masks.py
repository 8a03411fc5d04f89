"""Random masks over the patches of images, for masked image modelling."""

import torch
from torch import Tensor

from patchword.data.randomness import uniform

_TRAINING, _FIXED = 50, 51  # purposes of the random numbers


def training_masks(samples: Tensor, patches: int, ratio: float, seed: int, epoch: int) -> Tensor:
    """Return the masks of samples in an epoch, (batch, patches): True for round(ratio * patches) patches of each."""
    return _masks(samples, patches, ratio, (seed, epoch, _TRAINING))


def fixed_masks(samples: Tensor, patches: int, ratio: float) -> Tensor:
    """Return masks for validation and test, which are the same in every epoch and for every seed."""
    return _masks(samples, patches, ratio, (0, 0, _FIXED))


def masked_count(patches: int, ratio: float) -> int:
    """Return the number of masked patches per image: at least one, and never all."""
    return min(max(1, round(ratio * patches)), patches - 1)


def _masks(samples: Tensor, patches: int, ratio: float, drawn_by: tuple[int, int, int]) -> Tensor:
    seed, epoch, purpose = drawn_by
    numbers = samples.long()[:, None] * patches + torch.arange(patches, device=samples.device)
    drawn = uniform(seed, epoch, numbers, purpose)
    ranks: Tensor = drawn.argsort(dim=1, stable=True).argsort(dim=1)  # stable: equal numbers do not change the count
    return ranks < masked_count(patches, ratio)
