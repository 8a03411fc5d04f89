"""Dropout whose random bits are cheap in a compiled model on a GPU."""

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.tracing import is_exporting
from patchword.kernels.common.counter_rng import lowest_kept, random_bits, seeds_on

_LARGEST = 2**31  # elements that an index of 32 bits can number


def dropout(tokens: Tensor, rate: float, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with this probability and scales the others so that the mean stays.

    In a model that is compiled for a GPU, PyTorch's generator draws four numbers per element that it uses, which takes
    longer than all other work on the element. There the bits are hash(index, seed), and the backward pass computes them
    again instead of reading a mask.
    """
    drops = training and 0 < rate < 1 and not inplace
    if drops and torch.compiler.is_compiling() and not is_exporting() and _is_on_gpu(tokens):
        return hashed_dropout(tokens, rate)
    return F.dropout(tokens, rate, training, inplace)


def _is_on_gpu(tokens: Tensor) -> bool:
    """The size is checked last, since torch.compile specialises the graph to the outcome."""
    return tokens.is_cuda and tokens.numel() < _LARGEST


def hashed_dropout(tokens: Tensor, rate: float) -> Tensor:
    kept = random_bits(tokens.shape, seeds_on(tokens.device)) >= lowest_kept(rate)
    return torch.where(kept, tokens * (1 / (1 - rate)), 0.0)
