"""Operations on meta tensors are answered from memory with equal shapes, and only where that is exact."""

import torch
from torch import nn

from patchword.analysis.cost.quick_meta import QuickMeta


def layout(value):
    return value.shape, value.stride(), value.dtype, value.device.type


def test_answers_have_the_layout_of_the_first_one_and_are_new():
    with torch.device("meta"):
        layer, image = nn.Conv2d(3, 8, 3, stride=2), torch.empty(2, 3, 9, 12).to(memory_format=torch.channels_last)
        plain = layer(image)
        with QuickMeta():
            first, again = layer(image), layer(image)
            wider = layer(torch.empty(2, 3, 9, 20))
    assert layout(first) == layout(again) == layout(plain)
    assert first is not again
    assert wider.shape == (2, 8, 4, 9)


def test_views_and_changes_in_place_are_computed():
    with torch.device("meta"), QuickMeta():
        given = torch.empty(4, 6)
        assert given.view(3, 8)._base is given
        assert given.add_(1) is given


def test_tensors_with_numbers_are_computed():
    with QuickMeta():
        assert torch.equal(torch.ones(2) + 1, torch.full((2,), 2.0))
        assert torch.equal(torch.ones(2) + 1, torch.full((2,), 2.0))
