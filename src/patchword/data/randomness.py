"""Counter-based random numbers: a hash of (seed, epoch, sample, purpose) and of nothing else.

There is no generator state, so the order of the samples, the number of workers and a restart do not change the numbers.
The numbers of any set of samples are computed at once, on any device.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Purposes of the numbers that choose what is held out for evaluation. Changing one changes the split of every run.
HELD_OUT_DOCUMENTS = 13  # documents of a pretraining corpus
HELD_OUT_TEXTS = 31  # rows of a text data set

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: its multiples are evenly distributed
_WORD = 0xFFFF_FFFF_FFFF_FFFF
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # the multipliers of SplitMix64 (Steele et al., 2014)


def uniform(seed: int, epoch: int, index: Tensor, purpose: int) -> Tensor:
    """Return float32 numbers in [0, 1), one per sample of `index`."""
    key = _key(seed, epoch, purpose)
    if index.device.type == "cpu":
        return torch.from_numpy((_hash_numpy(index, key) >> np.uint64(40)).astype(np.float32) / np.float32(2**24))
    return ((_hash_torch(index.long(), key) >> 40) & 0xFFFFFF).float() / 2**24


def uniform_number(seed: int, epoch: int, sample: int, purpose: int) -> float:
    """Return the number that `uniform` has for one sample. A tensor of one sample takes ten times as long."""
    return (_key(seed, epoch, purpose, sample) >> 40) / 2**24


def integers(seed: int, epoch: int, index: Tensor, purpose: int, low: int, high: int) -> Tensor:
    """Return int64 numbers in [low, high], one per sample of `index`."""
    return low + (uniform(seed, epoch, index, purpose) * (high - low + 1)).long().clamp_(max=high - low)


def order(seed: int, epoch: int, count: int, purpose: int = 0) -> Tensor:
    """Return the samples 0 ... count - 1 in the order of this epoch, a random permutation."""
    hashed = _hash_numpy(torch.arange(count), _key(seed, epoch, purpose))
    return torch.argsort(torch.from_numpy(hashed.view(np.int64)), stable=True)


def step_seed(seed: int, step: int) -> int:
    """Return the seed of the other random operations of one training step (dropout, stochastic depth)."""
    return _key(seed, step, 1) >> 1


def _key(*words: int) -> int:
    """Hash the words one after another, so that (seed 0, epoch 1) differs from (seed 1, epoch 0)."""
    state = 0
    for word in words:
        state = (state + (word + 1) * _GOLDEN) & _WORD
        state = ((state ^ (state >> 30)) * _FIRST) & _WORD
        state = ((state ^ (state >> 27)) * _SECOND) & _WORD
        state ^= state >> 31
    return state


def _hash_torch(index: Tensor, key: int) -> Tensor:
    """Hash one more word, the sample index, for all samples at once with torch."""
    state = (index + 1) * _signed(_GOLDEN) + _signed(key)
    state = (state ^ _logical_shift(state, 30)) * _signed(_FIRST)
    state = (state ^ _logical_shift(state, 27)) * _signed(_SECOND)
    return state ^ _logical_shift(state, 31)


def _hash_numpy(index: Tensor, key: int) -> NDArray[np.uint64]:
    """The same hash with numpy, which has unsigned integers and in-place operations."""
    state = index.numpy().astype(np.uint64)
    state += np.uint64(1)
    state *= np.uint64(_GOLDEN)
    state += np.uint64(key)
    for bits, factor in ((30, _FIRST), (27, _SECOND)):
        state ^= state >> np.uint64(bits)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
    return state


def _logical_shift(state: Tensor, bits: int) -> Tensor:
    return (state >> bits) & ((1 << (64 - bits)) - 1)  # torch's shift is arithmetic; the hash needs a logical one


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word
