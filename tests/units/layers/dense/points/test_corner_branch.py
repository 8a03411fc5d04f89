"""Corner pooling: the golden tensors, the definition, and the form for exports."""

import pytest
import torch

from patchword.layers.dense.points.corner_branch import _maximum_by_doubling, corner_pool
from support.dense.operators import golden

DIRECTIONS = ("top", "left", "bottom", "right")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_golden(direction):
    assert torch.equal(corner_pool(golden("corner_pool/map"), direction), golden(f"corner_pool/{direction}"))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("size", [(6, 7), (1, 5), (8, 1)], ids=str)
def test_the_form_for_exports_is_the_same(direction, size):
    features = torch.randn(2, 3, *size)
    axis = 2 if direction in ("top", "bottom") else 3
    found = _maximum_by_doubling(features, axis, direction in ("bottom", "right"))
    assert torch.equal(found, corner_pool(features, direction))


def test_the_upper_left_corner_sees_both_edges():
    features = torch.zeros(1, 1, 5, 5)
    features[0, 0, 4, 1] = 2.0  # on the left edge of an object
    features[0, 0, 1, 3] = 3.0  # on its upper edge
    pooled = corner_pool(features, "top") + corner_pool(features, "left")
    assert pooled[0, 0, 1, 1] == 2 + 3
    assert corner_pool(features, "bottom")[0, 0, 1, 1] + corner_pool(features, "right")[0, 0, 1, 1] == 0
