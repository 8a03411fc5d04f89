"""The forms of boxes."""

import pytest
import torch

from patchword.layers.dense.queries.box_forms import to_centers, to_corners, to_pixels, to_relative


def test_forms_of_boxes():
    boxes, sizes = torch.tensor([[[10.0, 20, 30, 60]]]), torch.tensor([[100, 200]])
    assert to_centers(boxes).tolist() == [[[20, 40, 20, 40]]]
    assert torch.equal(to_corners(to_centers(boxes)), boxes)
    assert to_relative(boxes, sizes)[0, 0].tolist() == pytest.approx([0.05, 0.2, 0.15, 0.6])
    assert torch.allclose(to_pixels(to_relative(boxes, sizes), sizes), boxes)
