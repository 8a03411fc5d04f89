"""What all kernels for inference have in common: when they are left alone."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

from patchword.kernels.common import availability
from patchword.kernels.depthwise_conv import separable_qkv as separable
from patchword.kernels.depthwise_conv.separable_qkv import Separable
from patchword.kernels.mlp import fused_mlp as feed_forward
from patchword.kernels.mlp import linear_gelu as raised
from patchword.kernels.mlp import out_proj_mlp as joined
from patchword.kernels.mlp.fused_mlp import Weights
from patchword.kernels.norm_linear import operation as narrow
from patchword.kernels.stem import conv_stem_norm as entrance
from patchword.kernels.stem import patch_merge_norm as merged
from patchword.kernels.stem.conv_stem_norm import Entering


class Case(NamedTuple):
    """asked: of the tokens and what is read besides. shapes: of these"""

    trial: availability.Trial
    asked: Callable[..., bool]
    shapes: list[tuple[int, ...]]


def _separable(tokens, *weights):
    return separable.has_separable_kernel(tokens, [Separable(*weights[at : at + 7]) for at in (0, 7, 14)])


CASES = {
    "feed-forward": Case(
        feed_forward.TRIAL,
        lambda tokens, *weights: feed_forward.has_feed_forward_kernel(tokens, Weights(*weights)),
        [(2, 5, 96), (96,), (96,), (64, 96), (64,), (96, 64), (96,)],
    ),
    "raised": Case(raised.TRIAL, raised.has_raised_kernel, [(2, 5, 320), (128, 320), (128,)]),
    "raised by groups": Case(raised.GROUPS, raised.has_raised_kernel, [(2, 12000, 512), (128, 512), (128,)]),
    "joined": Case(
        joined.TRIAL,
        lambda tokens, matrix, bias, *weights: joined.has_joined_kernel(tokens, matrix, bias, Weights(*weights)),
        [(2, 18000, 96), (96, 96), (96,), (96,), (96,), (64, 96), (64,), (96, 64), (96,)],
    ),
    "norm and product": Case(narrow.TRIAL, narrow.has_normed_product, [(2, 5, 96), (96,), (96,), (288, 96), (288,)]),
    "product and sum": Case(narrow.TRIAL, narrow.has_product_onto, [(2, 5, 96), (2, 5, 96), (96, 96), (96,)]),
    "entrance": Case(
        entrance.TRIAL,
        lambda image, *parts: entrance.has_entrance_kernel(image, Entering(*parts), 4, 3),
        [(2, 32, 32, 3), (64, 3, 7, 7), (64,), (64,), (64,)],
    ),
    "merged": Case(merged.TRIAL, merged.has_merged_kernel, [(2, 4, 6, 96), (384,), (384,), (192, 384)]),
    "separable": Case(separable.TRIAL, _separable, [(2, 6, 64), *3 * [(64, 1, 3, 3), *4 * [(64,)], (64, 64), (64,)]]),
}


class Odd(torch.Tensor):
    """A tensor with ways of its own, as one that is quantised"""

    @staticmethod
    def __new__(cls, shape, device):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bfloat16, device=device)

    @classmethod
    def __torch_dispatch__(cls, *called, **named):
        raise AssertionError("nobody looks inside")


def made(case, device):
    tokens, *weights = (torch.zeros(shape, dtype=torch.bfloat16, device=device) for shape in case.shapes)
    return [tokens.permute(0, 3, 1, 2) if tokens.ndim == 4 else tokens, *weights]


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def test_it_is_taken_unless_its_trial_failed(hopper, case, monkeypatch):
    assert case.asked(*made(case, hopper))
    monkeypatch.setattr(case.trial, "found", {0: False})
    assert not case.asked(*made(case, hopper))


def test_an_export_wants_what_torch_knows(hopper, case, monkeypatch):
    monkeypatch.setattr(availability, "is_exporting", lambda: True)
    assert not case.asked(*made(case, hopper))


def test_no_gradient_is_lost(hopper, case):
    """not even that of one input alone"""
    for place in range(len(case.shapes)):
        given = made(case, hopper)
        given[place].requires_grad_()
        assert not case.asked(*given)
        with torch.no_grad():
            assert case.asked(*given)


def test_weights_with_ways_of_their_own_are_left_to_torch(hopper, case):
    first = 2 if case.asked is narrow.has_product_onto else 1  # behind what comes from other layers
    for place in range(first, len(case.shapes)):
        given = made(case, hopper)
        given[place] = Odd(case.shapes[place], hopper)
        assert not case.asked(*given)


def test_a_norm_of_another_size_is_left_to_torch_which_says_so(hopper):
    for name in ("feed-forward", "norm and product", "merged"):
        case = CASES[name]
        for place in (1, 2):
            given = made(case, hopper)
            given[place] = torch.zeros(32, dtype=torch.bfloat16, device=hopper)
            assert not case.asked(*given)


def test_groups_of_warps_are_left_to_known_versions_of_triton(hopper, monkeypatch):
    monkeypatch.setattr(availability, "_version", lambda: "3.5.1")
    for name in ("raised by groups", "joined"):
        assert not CASES[name].asked(*made(CASES[name], hopper))


def test_without_groups_a_shorter_product_goes_the_way_before(hopper, monkeypatch):
    given = [torch.zeros(shape, dtype=torch.bfloat16, device=hopper) for shape in [(2, 5, 384), (128, 384), (128,)]]
    monkeypatch.setattr(raised.GROUPS, "found", {0: False})
    assert raised.has_raised_kernel(*given)


def test_groups_of_warps_are_for_many_tokens(hopper, monkeypatch):
    """of which there must be fewer where their launch is recorded"""
    case = CASES["joined"]
    few = case._replace(shapes=[(2, 17000, 96), *case.shapes[1:]])
    fewer = case._replace(shapes=[(2, 8000, 96), *case.shapes[1:]])
    assert [each.asked(*made(each, hopper)) for each in (case, few, fewer)] == [True, False, False]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert [each.asked(*made(each, hopper)) for each in (case, few, fewer)] == [True, True, False]
    case = CASES["raised by groups"]
    few = case._replace(shapes=[(2, 5000, 512), *case.shapes[1:]])
    assert case.asked(*made(case, hopper))
    assert not few.asked(*made(few, hopper))
