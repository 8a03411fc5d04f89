"""Random numbers that depend on (seed, epoch, sample, purpose) and on nothing else.

No generator is carried along, so the order of the samples, the number of workers and a restart cannot change them, and
the numbers of any set of samples are computed at once, on any device.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: its multiples are spread evenly
_WORD = 0xFFFF_FFFF_FFFF_FFFF
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # the multipliers of SplitMix64 (Steele et al., 2014)


def uniform(seed: int, epoch: int, index: Tensor, purpose: int) -> Tensor:
    """float32 in [0, 1), one for each sample of `index`"""
    key = _key(seed, epoch, purpose)
    if index.device.type == "cpu":
        return torch.from_numpy((_mixed_on_cpu(index, key) >> np.uint64(40)).astype(np.float32) / np.float32(2**24))
    return ((_mixed_anywhere(index.long(), key) >> 40) & 0xFFFFFF).float() / 2**24


def integers(seed: int, epoch: int, index: Tensor, purpose: int, low: int, high: int) -> Tensor:
    """int64 in [low, high], one for each sample of `index`"""
    return low + (uniform(seed, epoch, index, purpose) * (high - low + 1)).long().clamp_(max=high - low)


def order(seed: int, epoch: int, count: int) -> Tensor:
    """the samples 0 ... count - 1 in the order of this epoch"""
    mixed = _mixed_on_cpu(torch.arange(count), _key(seed, epoch, 0))
    return torch.argsort(torch.from_numpy(mixed.view(np.int64)), stable=True)


def step_seed(seed: int, step: int) -> int:
    """the seed of everything else that is random in one training step (dropout, stochastic depth)"""
    return _key(seed, step, 1) >> 1


def _key(*words: int) -> int:
    """Each word is mixed in by itself, so that (seed 0, epoch 1) is not (seed 1, epoch 0)."""
    state = 0
    for word in words:
        state = (state + (word + 1) * _GOLDEN) & _WORD
        state = ((state ^ (state >> 30)) * _FIRST) & _WORD
        state = ((state ^ (state >> 27)) * _SECOND) & _WORD
        state ^= state >> 31
    return state


def _mixed_anywhere(index: Tensor, key: int) -> Tensor:
    """The same mixing of one more word, the sample's number, for all samples at once."""
    state = (index + 1) * _signed(_GOLDEN) + _signed(key)
    state = (state ^ _shifted(state, 30)) * _signed(_FIRST)
    state = (state ^ _shifted(state, 27)) * _signed(_SECOND)
    return state ^ _shifted(state, 31)


def _mixed_on_cpu(index: Tensor, key: int) -> NDArray[np.uint64]:
    """The same with numpy, which knows numbers without a sign, and overwrites."""
    state = index.numpy().astype(np.uint64)
    state += np.uint64(1)
    state *= np.uint64(_GOLDEN)
    state += np.uint64(key)
    for bits, factor in ((30, _FIRST), (27, _SECOND)):
        state ^= state >> np.uint64(bits)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
    return state


def _shifted(state: Tensor, bits: int) -> Tensor:
    return (state >> bits) & ((1 << (64 - bits)) - 1)  # torch shifts the sign in; a hash must not


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word
