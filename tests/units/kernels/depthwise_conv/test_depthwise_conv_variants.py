"""One compiled kernel of the depthwise convolution runs on maps of many sizes."""

import pytest
import torch

pytest.importorskip("triton")

from patchword.kernels.depthwise_conv.launch import Map, backward, forward
from support.kernel_tests import variant


def launches(batch, height, width, channels=64):
    shape, dtype = torch.Size((batch, height * width, channels)), torch.float32
    given = Map(shape, (shape[1] * shape[2], shape[2], 1), height, width, (dtype,) * 4, -1)
    back = backward(given)
    return forward(given), back.tokens, back.taps.main, back.taps.total


def test_maps_of_all_sizes_share_kernels():
    maps = [(1, 14, 14), (2, 21, 28), (16, 30, 23), (2, 200, 304), (3, 112, 16)]
    for same in zip(*(launches(*given) for given in maps), strict=True):
        assert len({variant(launch) for launch in same}) == 1


def test_other_channels_need_kernels_of_their_own():
    """The comparison of variants can fail."""
    for pair in zip(launches(1, 14, 14), launches(1, 14, 14, channels=128), strict=True):
        assert len({variant(launch) for launch in pair}) == 2
