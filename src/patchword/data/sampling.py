"""Samplers: which samples an epoch has, in which order, if these are not all samples once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.data.randomness import order

Sampler = Callable[[int, int], Tensor]  # (seed, epoch) -> the indices of the epoch's samples, in order

_LARGER, _PLACES = 52, 53  # purposes of random numbers: classes with one sample more, and places in the epoch


@dataclass(frozen=True, eq=False)
class BalancedSampler:
    """Draws every class equally often; an epoch has as many samples as the data set. labels: (count,) on the CPU.

    A class with more samples than its share gives different ones in every epoch, each at most once per epoch. A class
    with fewer gives all of its samples, repeatedly, and none more than once more often than another.
    """

    labels: Tensor

    def __call__(self, seed: int, epoch: int) -> Tensor:
        count, sizes = len(self.labels), self.labels.bincount()
        sizes = sizes[sizes > 0]
        shares = torch.full_like(sizes, count // len(sizes))
        shares[order(seed, epoch, len(sizes), _LARGER)[: count % len(sizes)]] += 1
        shuffled = order(seed, epoch, count)
        by_class = shuffled[self.labels[shuffled].argsort(stable=True)]
        number = torch.arange(count) - _starts(shares).repeat_interleave(shares)  # of a draw within its class
        place = _starts(sizes).repeat_interleave(shares) + number % sizes.repeat_interleave(shares)
        return by_class[place][order(seed, epoch, count, _PLACES)]


def occurrences(samples: Tensor) -> Tensor:
    """Return for each place how often its sample stands at earlier places."""
    if samples.bincount(minlength=1).max() <= 1:  # the usual case, without sorting
        return torch.zeros_like(samples)
    by_sample = samples.argsort(stable=True)
    _, counts = samples[by_sample].unique_consecutive(return_counts=True)
    found = torch.empty_like(samples)
    found[by_sample] = torch.arange(len(samples)) - _starts(counts).repeat_interleave(counts)
    return found


def _starts(lengths: Tensor) -> Tensor:
    """Return where each of several consecutive parts begins."""
    return lengths.cumsum(0) - lengths
