import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import patchword
from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.kernels.stem import image_conv
from patchword.kernels.stem.image_conv import conv2d_as_matmul
from patchword.layers import NormedStem, OverlapEmbed, PatchEmbed, PatchMerge, overlapping
from patchword.layers.convolution.stem import padded
from support.helpers import difference, pixels, randomise

SIDES = [(8, 12), (9, 8), (8, 15), (7, 7), (1, 2), (5, 13)]


def as_tokens(feature_map: Tensor) -> Tensor:
    return feature_map.flatten(2).transpose(1, 2)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_patches_equal_a_strided_convolution(memory):
    part, images = randomise(PatchEmbed(3, 10, 4)), pixels(2, 3, 8, 12)
    tokens, grid = part(images.to(memory_format=memory))
    expected = F.conv2d(images, part.weight, part.bias, stride=4)
    assert grid == Grid(2, 3)
    assert difference(tokens, as_tokens(expected)) < 1e-5


@pytest.mark.parametrize("shape", [(9, 8), (8, 15), (1, 2)])
def test_sides_that_the_patch_does_not_divide_are_padded_with_zeros_below_and_on_the_right(shape):
    part, images = randomise(PatchEmbed(3, 10, 4)), pixels(2, 3, *shape)
    whole = torch.zeros(2, 3, *(-(-side // 4) * 4 for side in shape))
    whole[:, :, : shape[0], : shape[1]] = images
    tokens, grid = part(images)
    assert grid == part.grid(*shape) == part.grid(*whole.shape[2:])
    assert difference(tokens, as_tokens(F.conv2d(whole, part.weight, part.bias, stride=4))) < 1e-5


@pytest.mark.parametrize("name", ["vit-exercise", "deit-mini", "mixer-mini"])
@pytest.mark.parametrize(("shape", "hint"), [((9, 8), "8 x 8"), ((8, 15), "8 x 16"), ((1, 2), "4 x 4")])
def test_a_model_is_not_made_for_an_image_that_its_patch_does_not_divide(name, shape, hint):
    with pytest.raises(UserError, match=f"{shape[0]} x {shape[1]} cannot be cut into patches of 4 x 4") as caught:
        patchword.create(name, image=shape)
    assert hint in caught.value.hint


@pytest.mark.parametrize("part", [PatchEmbed(3, 10, 4), OverlapEmbed(3, 10, 7, 4, 3)], ids=["apart", "overlapping"])
@pytest.mark.parametrize("shape", [(1, 1, 8, 8), (3, 8, 8), (1, 8, 8, 3)])
def test_wrong_channels_or_dimensions(part, shape):
    with pytest.raises(UserError, match=r"expected \(batch, 3, height, width\)") as caught:
        part(torch.zeros(shape))
    assert caught.value.got == shape


# Overlapping patches


@pytest.mark.parametrize("shape", [(4, 4), (5, 6), (7, 7), (8, 9), (13, 4), (28, 31), (29, 20)])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(7, 4, 3), (7, 4, 2), (3, 2, 1), (3, 2, 0), (4, 4, 0)])
def test_overlapping_patches_are_a_convolution_and_know_its_grid(kernel, stride, padding, shape):
    part, images = randomise(OverlapEmbed(3, 10, kernel, stride, padding)), pixels(2, 3, *shape)
    tokens, grid = part(images)
    expected = F.conv2d(images, part.convolution.weight, part.convolution.bias, stride, padding)
    assert grid == part.grid(*shape) == Grid(*expected.shape[2:])
    assert torch.equal(tokens, as_tokens(expected))


@pytest.mark.parametrize("shape", [(7, 7), (8, 9), (28, 31)])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(7, 4, 3), (7, 4, 2), (3, 2, 1), (8, 4, 0)])
def test_overlapping_patches_are_a_matrix_product_too(kernel, stride, padding, shape):
    """which runs on a GPU over the few channels of an image"""
    if kernel > min(shape):
        shape = (9, 12)
    part, images = randomise(OverlapEmbed(3, 10, kernel, stride, padding)), pixels(2, 3, *shape)
    convolution = part.convolution
    given = convolution.weight, convolution.bias, stride, padding
    expected = convolution(images)
    assert difference(conv2d_as_matmul(images, *given), expected) < 1e-5
    assert difference(conv2d_as_matmul(images.flip(3), *given), expected) > 0.1


def test_an_image_smaller_than_the_kernel_still_becomes_a_token():
    part, images = randomise(OverlapEmbed(1, 10, 4, 4, 0)), pixels(1, 1, 3, 9)
    tokens, grid = part(images)
    assert grid == Grid(1, 2)  # only the side that is too short is padded
    expected = F.conv2d(F.pad(images, (0, 0, 0, 1)), *part.convolution.parameters(), 4)
    assert difference(tokens, as_tokens(expected)) < 1e-5


@pytest.mark.parametrize(("stride", "kernel"), [(4, 7), (2, 3)])
def test_the_stem_of_convolutional_families(stride, kernel):
    part, images = randomise(overlapping(3, 10, stride)), pixels(2, 3, 13, 20)
    convolution = part.patches.convolution
    assert (convolution.kernel_size, convolution.stride) == ((kernel, kernel), (stride, stride))
    assert convolution.padding == (kernel // 2, kernel // 2)
    assert overlapping(3, 10, stride, padding=1).patches.convolution.padding == (1, 1)
    assert (part.stride, part.width) == (stride, 10)
    tokens, grid = part(images)
    assert grid == part.grid(13, 20)
    assert difference(tokens, F.layer_norm(as_tokens(convolution(images)), (10,), *part.norm.parameters())) < 1e-5


def test_a_norm_behind_a_stem_has_its_own_eps():
    part, images = randomise(NormedStem(PatchEmbed(3, 10, 4), eps=0.5)), pixels(2, 3, 8, 12)
    expected = F.layer_norm(part.patches(images)[0], (10,), *part.norm.parameters(), eps=0.5)
    assert difference(part(images)[0], expected) < 1e-5
    assert NormedStem(PatchEmbed(3, 10, 4)).norm.eps == 1e-5


# Merging


@pytest.mark.parametrize("shape", SIDES)
def test_merging_joins_four_neighbours_row_first(shape):
    part, feature_map = randomise(PatchMerge(6)), pixels(2, 6, *shape)
    tokens, grid = part(feature_map)
    whole = F.pad(feature_map, (0, shape[1] % 2, 0, shape[0] % 2))  # zeros
    assert grid == part.grid(*shape) == Grid(whole.shape[2] // 2, whole.shape[3] // 2)
    assert (part.stride, part.width) == (2, 12)
    for place in range(grid.tokens):
        row, column = 2 * (place // grid.width), 2 * (place % grid.width)
        four = [whole[:, :, row + i, column + j] for i, j in ((0, 0), (1, 0), (0, 1), (1, 1))]
        joined = F.layer_norm(torch.cat(four, 1), (24,), *part.norm.parameters())
        torch.testing.assert_close(tokens[:, place], joined @ part.reduce.weight.T)


def test_the_order_of_the_four_is_seen():
    """The test above would not pass for the column first: the two orders give other tokens."""
    part, feature_map = randomise(PatchMerge(6)), pixels(1, 6, 4, 4)
    assert difference(part(feature_map.transpose(2, 3))[0], part(feature_map)[0]) > 0.1


@pytest.mark.parametrize("shape", SIDES)
def test_padding_goes_below_and_to_the_right(shape):
    feature_map = pixels(1, 2, *shape)
    whole = padded(feature_map, 4)
    assert all(side % 4 == 0 and side - old < 4 for side, old in zip(whole.shape[2:], shape, strict=True))
    assert torch.equal(whole[:, :, : shape[0], : shape[1]], feature_map)
    assert not whole[:, :, shape[0] :].any()
    assert not whole[:, :, :, shape[1] :].any()
    assert padded(whole, 4) is whole


def test_every_stem_tells_the_pixels_between_two_tokens():
    parts = [PatchEmbed(3, 10, 4), OverlapEmbed(3, 10, 7, 4, 3), overlapping(3, 10, 4)]
    for part in parts:
        assert part.stride == 4
        far, near = part.grid(64, 64), part.grid(32, 64)
        assert far.height - near.height == 32 // part.stride
        assert far.width == near.width


@pytest.mark.parametrize("shape", [(1, 1), (2, 201), (201, 2), (2, 3), (30, 1)])
def test_an_image_smaller_than_the_kernel_makes_the_grid_it_says(shape):
    part = OverlapEmbed(3, 8, 7, 4, 2)
    tokens, grid = part(pixels(1, 3, *shape))
    assert grid == part.grid(*shape)
    assert tokens.shape == (1, grid.tokens, 8)


@pytest.mark.parametrize(("channels", "taken"), [(3, "matmul"), (4, "matmul"), (5, "conv2d")])
def test_on_a_gpu_few_channels_are_a_matrix_product(hopper, channels, taken, monkeypatch):
    monkeypatch.setattr(image_conv, "conv2d_as_matmul", lambda *given: "matmul")
    monkeypatch.setattr(image_conv.F, "conv2d", lambda *given: "conv2d")
    images, weight = torch.zeros(2, channels, 32, 36, device=hopper), torch.zeros(8, channels, 7, 7, device=hopper)
    assert image_conv.image_conv2d(images, weight, None, 4, 3) == taken


def test_on_a_cpu_images_are_convolved(monkeypatch):
    monkeypatch.setattr(image_conv, "conv2d_as_matmul", lambda *given: pytest.fail("slower on a CPU"))
    OverlapEmbed(3, 8, 7, 4, 3)(pixels(1, 3, 16, 16))
