import pytest
import torch
from torch.nn import functional as F

from helpers import difference, pixels, randomise
from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.layers import PatchEmbed


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_patches_equal_a_strided_convolution(memory):
    part, images = randomise(PatchEmbed(3, 10, 4)), pixels(2, 3, 8, 12)
    tokens, grid = part(images.to(memory_format=memory))
    expected = F.conv2d(images, part.weight, part.bias, stride=4)
    assert grid == Grid(2, 3)
    assert difference(tokens, expected.flatten(2).transpose(1, 2)) < 1e-5


@pytest.mark.parametrize(("shape", "hint"), [((9, 8), "8 x 8"), ((8, 15), "8 x 16"), ((1, 2), "4 x 4")])
def test_an_image_the_patch_does_not_divide(shape, hint):
    with pytest.raises(UserError, match=f"{shape[0]} x {shape[1]} cannot be cut into patches of 4 x 4") as caught:
        PatchEmbed(3, 10, 4)(torch.zeros(1, 3, *shape))
    assert hint in caught.value.hint


@pytest.mark.parametrize("shape", [(1, 1, 8, 8), (3, 8, 8), (1, 8, 8, 3)])
def test_wrong_channels_or_dimensions(shape):
    with pytest.raises(UserError, match=r"expected \(batch, 3, height, width\)") as caught:
        PatchEmbed(3, 10, 4)(torch.zeros(shape))
    assert caught.value.got == shape
