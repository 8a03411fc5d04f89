"""Launches of a depthwise convolution over whole maps, prepared once per call signature.

Import it only where Triton is installed.
"""

from functools import lru_cache
from typing import NamedTuple

import torch

from patchword.kernels.common.launch import PreparedLaunch
from patchword.kernels.depthwise_conv.lepe_conv_launch import ChannelLayout, Filter, TapsBackward
from patchword.kernels.window_attention.tiling import Rectangles, Side


class Map(NamedTuple):
    """The signature of a call: all that its launches depend on."""

    shape: torch.Size  # (batch, tokens, channels)
    strides: tuple[int, ...]
    height: int
    width: int
    dtypes: tuple[torch.dtype | None, ...]  # of tokens, taps, constant and output; None if there is no constant
    device: int

    @property
    def filter(self) -> Filter:
        rows, columns = (Side(length, length, 1, 1, length, 0) for length in (self.height, self.width))
        return Filter(Rectangles(rows, columns), self.shape[0], self.shape[2], self.device)

    @property
    def tokens(self) -> ChannelLayout:
        return ChannelLayout(0, *self.strides[:2])

    @property
    def packed(self) -> ChannelLayout:
        """The layout of outputs and of their gradients: contiguous tokens."""
        _, tokens, channels = self.shape
        return ChannelLayout(0, tokens * channels, channels)


@lru_cache(1024)
def forward(given: Map) -> PreparedLaunch:
    """Returns a launch that is called with (tokens, taps, constant, output, output); it does not read the fourth."""
    return given.filter.forward(given.tokens, given.packed, has_constant=given.dtypes[2] is not None, accumulate=False)


class Back(NamedTuple):
    """tokens: called with (gradient, taps, taps, gradient, grad_tokens); it does not read the third and the fourth"""

    tokens: PreparedLaunch
    taps: TapsBackward


@lru_cache(1024)
def backward(given: Map) -> Back:
    part = given.filter
    return Back(part.backward(given.packed, given.packed, accumulate=False), part.taps(given.tokens, given.packed))
