"""The launches of a filter over whole maps. Only to be imported where Triton is installed."""

from functools import lru_cache
from typing import NamedTuple

import torch

from patchword.kernels.common.launch import PreparedLaunch
from patchword.kernels.depthwise_conv.lepe_conv_launch import Filter, ForTaps, Lie
from patchword.kernels.window_attention.tiling import Rectangles, Side


class Map(NamedTuple):
    """All that the launches follow from."""

    shape: torch.Size  # (batch, tokens, channels)
    strides: tuple[int, ...]
    height: int
    width: int
    kinds: tuple[torch.dtype | None, ...]  # of tokens, taps, constant, answer; None: it is not there
    device: int

    @property
    def filter(self) -> Filter:
        rows, columns = (Side(length, length, 1, 1, length, 0) for length in (self.height, self.width))
        return Filter(Rectangles(rows, columns), self.shape[0], self.shape[2], self.device)

    @property
    def tokens(self) -> Lie:
        return Lie(0, *self.strides[:2])

    @property
    def packed(self) -> Lie:
        """one token behind the other, as answers and their gradients lie"""
        _, tokens, channels = self.shape
        return Lie(0, tokens * channels, channels)


@lru_cache(1024)
def forward(given: Map) -> PreparedLaunch:
    """run(tokens, taps, constant, answer, answer), of which the fourth is not read"""
    return given.filter.forward(given.tokens, given.packed, lifted=given.kinds[2] is not None, onto=False)


class Back(NamedTuple):
    """tokens(gradient, taps, taps, gradient, to_tokens), where two are not read"""

    tokens: PreparedLaunch
    taps: ForTaps


@lru_cache(1024)
def backward(given: Map) -> Back:
    part = given.filter
    return Back(part.backward(given.packed, given.packed, onto=False), part.taps(given.tokens, given.packed))
