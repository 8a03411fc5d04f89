"""The bidirectional feature pyramid: sizes, laterals and weights. The golden tests hold its numbers."""

import torch
from torch import nn

from patchword.layers.dense.points.bifpn import BiFpn, Combination


def test_sizes_of_odd_maps_and_extra_levels():
    neck = BiFpn((12, 16), 8, extra=2, rounds=2, groups=2)
    levels = neck([torch.randn(1, 12, 13, 9), torch.randn(1, 16, 7, 5)])
    assert [tuple(level.shape) for level in levels] == [(1, 8, 13, 9), (1, 8, 7, 5), (1, 8, 4, 3), (1, 8, 2, 2)]


def test_maps_of_the_right_width_have_no_lateral():
    neck = BiFpn((8, 16), 8, extra=1, rounds=2, groups=2)
    first, second = neck.rounds
    assert [isinstance(layer, nn.Identity) for layer in first.lateral] == [True, False, False]
    assert all(isinstance(layer, nn.Identity) for layer in second.lateral)


def test_negative_weights_count_zero():
    combine = Combination(2, 4, 2)
    combine.output = nn.Identity()
    with torch.no_grad():
        combine.weights.copy_(torch.tensor([-1.0, 2.0]).view_as(combine.weights))
    first, second = torch.randn(2, 1, 4, 3, 3)
    expected = torch.nn.functional.silu(second * (2 / 2.0001))
    assert torch.allclose(combine(first, second), expected)


def test_a_weight_of_zero_for_all_maps_is_finite():
    combine = Combination(3, 4, 2)
    nn.init.zeros_(combine.weights)
    assert combine(*torch.randn(3, 1, 4, 3, 3)).isfinite().all()
