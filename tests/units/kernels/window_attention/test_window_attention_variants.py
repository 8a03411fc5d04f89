"""One compiled kernel of window attention runs on maps of many sizes."""

import pytest
import torch

from patchword.core.grid import Grid
from patchword.kernels.window_attention import Side
from patchword.layers import Interlaced, Windows

pytest.importorskip("triton")

from patchword.kernels.window_attention.launch import Call, forward
from patchword.kernels.window_attention.launch_backward import backward
from support.kernel_tests import variant

MAPS = [Grid(14, 14), Grid(21, 28), Grid(30, 23), Grid(200, 304), Grid(112, 16)]  # the third and fourth need padding
# Windows and pales of 7, 12 and 14 rows and of 7 and 14 columns need no padding, or padding along both sides.
EXACT, PADDED = [Grid(84, 28), Grid(168, 56), Grid(252, 224)], [Grid(20, 30), Grid(32, 16), Grid(160, 100)]
pytestmark = pytest.mark.usefixtures("fresh_launches")


def call(partition, grid, *, heads=3, batch=2, table=True, taps=False):
    """Returns the signature of a call with fused queries, keys and values in bfloat16; heads have 32 channels."""
    width, dtype = heads * 32, torch.float32
    shape = torch.Size((batch, grid.tokens, 3 * width))
    strides = shape[1] * shape[2], shape[2], 1
    tables, filters = (dtype if table else None,), (dtype if taps else None,) * 2
    numbers = tuple(partition.cut(grid).numbers())
    return Call(numbers, heads, 0.25, shape, strides, True, torch.bfloat16, tables, filters, -1)


def launches(given):
    """Returns the launches of the attention by name, but not the sum of the biases' gradients."""
    (ahead,), (back,) = forward(given), backward(given)
    found = {"forward": ahead.main, "backward": back.main, "keys": back.keys}
    if back.table:
        found["biases"] = back.table.biases
    return {name: launch for name, launch in found.items() if launch is not None}


def variants(calls):
    """Returns the different variants of each kernel, by name."""
    found = {}
    for given in calls:
        for name, launch in launches(given).items():
            found.setdefault(name, set()).add(variant(launch))
    return found


def assert_one_variant_each(calls, names):
    found = variants(calls)
    assert set(found) == set(names)
    for name, different in found.items():
        assert len(different) == 1, (name, different)


@pytest.mark.parametrize("shift", [0, 3])
def test_swin_windows_share_kernels_on_all_maps_and_in_all_stages(shift):
    """With any number of heads and images, with and without padding."""
    stages = [(heads, batch) for heads in (1, 3, 6, 16, 24) for batch in (1, 2, 16)]
    calls = [call(Windows(7, 7, shift), grid, heads=heads, batch=batch) for grid in MAPS for heads, batch in stages]
    assert_one_variant_each(calls, ["forward", "backward"])


def test_the_sum_of_the_biases_gradients_has_the_same_constants_on_all_maps():
    """It also has three variants by the number of its parts, however many sizes there are."""
    partitions = [Windows(7, 7), Windows(7, 7, shift=3)]
    calls = [call(partition, grid, batch=batch) for partition in partitions for grid in MAPS for batch in (1, 2, 16)]
    found = {variant(backward(given)[0].table.reduce) for given in calls}
    assert len({tuple(pair for pair in each[1] if pair[0] != "parts") for each in found}) == 1
    assert len(found) <= 3


def test_a_shift_and_another_window_need_kernels_of_their_own():
    """The comparison of variants can fail."""
    calls = [call(partition, MAPS[0]) for partition in (Windows(7, 7), Windows(7, 7, shift=3), Windows(6, 7))]
    assert [len(different) for different in variants(calls).values()] == [3, 3]


@pytest.mark.parametrize("maps", [EXACT, PADDED], ids=["exact", "padded"])
@pytest.mark.parametrize(
    "partition", [Windows(7, 14), Windows(7, 14, shift=3), Interlaced(7, 14), Interlaced(14, 7)], ids=str
)
def test_other_rectangles_share_kernels_on_maps_with_padding_and_on_maps_without(partition, maps):
    """With a table, or with a convolution of the values, which is compiled for each size."""
    assert_one_variant_each([call(partition, grid) for grid in maps], ["forward", "backward"])
    calls = [call(partition, grid, table=False, taps=True) for grid in maps]
    assert_one_variant_each(calls, ["forward", "backward"])


@pytest.mark.parametrize("maps", [EXACT, PADDED], ids=["exact", "padded"])
@pytest.mark.parametrize("partition", [Windows(12, 14, shift=6), Interlaced(14, 14)], ids=str)
def test_groups_of_several_tiles_share_kernels_on_maps_with_padding_and_on_maps_without(partition, maps):
    assert_one_variant_each([call(partition, grid) for grid in maps], ["forward", "backward", "keys", "biases"])


def test_stripes_share_kernels_on_maps_of_equal_height():
    """Members of a stripe are a side of the map, which shapes tiles."""
    calls = [call(Windows(None, 7), Grid(56, width), table=False, taps=True) for width in (56, 112, 224)]
    assert all(len(different) == 1 for different in variants(calls).values())


def test_sides_that_no_kernel_supports_are_refused():
    assert not Side(8, 4, 2, 1, 4, 2).is_interlaced
    assert Side(8, 4, 2, 2, 1, 0).is_interlaced
    with pytest.raises(AssertionError, match="no kernel for"):
        _ = Side(8, 4, 2, 3, 1, 0).is_interlaced
