"""Sine positions, and the mask of cells against nearest interpolation of a mask of pixels."""

import pytest
import torch
import torch.nn.functional as F

from patchword.core.errors import UserError
from patchword.layers.dense.queries.sine_positions import SinePositions, pixels_of_cells, valid_cells


@pytest.mark.parametrize("image", [(128, 160), (97, 131), (33, 50), (800, 1333), (31, 7)])
def test_the_mask_is_that_of_nearest_interpolation(image):
    height, width = image
    cells = -(-height // 32), -(-width // 32)
    for size in ((height, width), (height - 3, width // 2 + 1), (1, 1), (height // 2, width)):
        inside = torch.zeros(1, 1, height, width)
        inside[..., : size[0], : size[1]] = 1
        expected = F.interpolate(inside, size=cells)[:, 0].bool()
        pixels = pixels_of_cells(image, cells, torch.device("cpu"))[None]
        assert torch.equal(valid_cells(pixels, torch.tensor([size])), expected), size


def test_rows_are_the_first_half_and_end_at_a_full_turn():
    found = SinePositions(8)(torch.ones(1, 4, 2, dtype=torch.bool)).view(4, 2, 8)
    assert torch.allclose(found[:, 0, :4], found[:, 1, :4])
    assert torch.allclose(found[0, :, 4:], found[3, :, 4:])
    angles = 2 * torch.pi * torch.tensor([1, 2, 3, 4]) / 4
    assert torch.allclose(found[:, 0, 0], angles.sin(), atol=1e-5)
    assert torch.allclose(found[:, 0, 1], angles.cos(), atol=1e-5)
    assert torch.allclose(found[:, 0, 2], (angles / 100).sin(), atol=1e-5)


def test_padding_does_not_move_positions():
    valid = torch.zeros(1, 5, 6, dtype=torch.bool)
    valid[:, :3, :4] = True
    padded = SinePositions(8)(valid).view(5, 6, 8)[:3, :4]
    assert torch.allclose(padded, SinePositions(8)(torch.ones(1, 3, 4, dtype=torch.bool)).view(3, 4, 8), atol=1e-6)


def test_the_width_is_a_multiple_of_four():
    with pytest.raises(UserError, match="multiple of 4"):
        SinePositions(10)
