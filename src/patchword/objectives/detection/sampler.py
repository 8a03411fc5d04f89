"""Samplers: which of the assigned boxes enter the loss, as the largest of random keys, in fixed shapes."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.objectives.detection.shared_loss import Keys, random_keys


class Samples(NamedTuple):
    """indices: of the sampled boxes, positives first. valid: which are samples. Both (batch, samples)."""

    indices: Tensor
    valid: Tensor


@dataclass(frozen=True)
class RandomSampler:
    """Takes `count` boxes per image at random, at most `positive_fraction` of them with an object.

    Boxes without an object fill up the count, so that fewer positives mean more negatives.
    """

    count: int
    positive_fraction: float

    @property
    def max_positives(self) -> int:
        """The largest number of positives per image."""
        return int(self.count * self.positive_fraction)

    @torch.no_grad()
    def __call__(self, assigned: Tensor, keys: Keys = random_keys) -> Samples:
        """Sample from assigned boxes (batch, boxes): -1 is never taken, 0 is negative, k is positive."""
        key = keys((assigned.shape[0], assigned.shape[1]), assigned.device)
        positive = assigned > 0
        if self.max_positives < assigned.shape[1]:
            ranked = key.masked_fill(~positive, -1).topk(self.max_positives, dim=1).indices
            positive = positive & torch.zeros_like(positive).scatter(1, ranked, True)
        priority = torch.where(positive, key + 2, key.masked_fill(assigned != 0, -1))
        top = priority.topk(min(self.count, assigned.shape[1]), dim=1)
        return Samples(top.indices, top.values >= 0)
