"""When the kernels for inference are not used: rules that all of them share."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

from patchword.kernels.common import availability
from patchword.kernels.depthwise_conv import separable_qkv
from patchword.kernels.depthwise_conv.reference import SeparableWeights
from patchword.kernels.mlp import fused_mlp, linear_gelu, out_proj_mlp
from patchword.kernels.mlp.reference import Weights
from patchword.kernels.norm_linear import operation as norm_linear
from patchword.kernels.stem import conv_stem_norm
from patchword.kernels.stem.reference import ConvStemWeights


class Case(NamedTuple):
    """is_used: called with the tokens and the weights. shapes: of the tokens and the weights"""

    self_test: availability.SelfTest
    is_used: Callable[..., bool]
    shapes: list[tuple[int, ...]]


def _separable(tokens, *weights):
    return separable_qkv.has_separable_qkv_kernel(
        tokens, [SeparableWeights(*weights[at : at + 7]) for at in (0, 7, 14)]
    )


CASES = {
    "fused_mlp": Case(
        fused_mlp.SELF_TEST,
        lambda tokens, *weights: fused_mlp.has_fused_mlp_kernel(tokens, Weights(*weights)),
        [(2, 5, 96), (96,), (96,), (64, 96), (64,), (96, 64), (96,)],
    ),
    "linear_gelu": Case(linear_gelu.SELF_TEST, linear_gelu.has_linear_gelu_kernel, [(2, 5, 320), (128, 320), (128,)]),
    "out_proj_mlp": Case(
        out_proj_mlp.SELF_TEST,
        lambda tokens, matrix, bias, *weights: out_proj_mlp.has_out_proj_mlp_kernel(
            tokens, matrix, bias, Weights(*weights)
        ),
        [(2, 18000, 96), (96, 96), (96,), (96,), (96,), (64, 96), (64,), (96, 64), (96,)],
    ),
    "layer_norm_linear": Case(
        norm_linear.SELF_TEST, norm_linear.has_layer_norm_linear_kernel, [(2, 5, 96), (96,), (96,), (288, 96), (288,)]
    ),
    "linear_residual": Case(
        norm_linear.SELF_TEST, norm_linear.has_linear_residual_kernel, [(2, 5, 96), (2, 5, 96), (96, 96), (96,)]
    ),
    "conv_stem_norm": Case(
        conv_stem_norm.SELF_TEST,
        lambda image, *parts: conv_stem_norm.has_conv_stem_norm_kernel(image, ConvStemWeights(*parts), 4, 3),
        [(2, 32, 32, 3), (64, 3, 7, 7), (64,), (64,), (64,)],
    ),
    "separable_qkv": Case(
        separable_qkv.SELF_TEST, _separable, [(2, 6, 64), *3 * [(64, 1, 3, 3), *4 * [(64,)], (64, 64), (64,)]]
    ),
}


class Odd(torch.Tensor):
    """A tensor subclass, such as a quantised tensor."""

    @staticmethod
    def __new__(cls, shape, device):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bfloat16, device=device)

    @classmethod
    def __torch_dispatch__(cls, *called, **named):
        raise AssertionError("the data must not be read")


def made(case, device):
    tokens, *weights = (torch.zeros(shape, dtype=torch.bfloat16, device=device) for shape in case.shapes)
    return [tokens.permute(0, 3, 1, 2) if tokens.ndim == 4 else tokens, *weights]


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def test_it_is_used_unless_its_self_test_failed(hopper, case, monkeypatch):
    assert case.is_used(*made(case, hopper))
    monkeypatch.setattr(case.self_test, "found", {0: False})
    assert not case.is_used(*made(case, hopper))


def test_an_export_uses_operations_of_torch(hopper, case, monkeypatch):
    monkeypatch.setattr(availability, "is_exporting", lambda: True)
    assert not case.is_used(*made(case, hopper))


def test_no_gradient_is_lost(hopper, case):
    """Not even if only one input needs it."""
    for place in range(len(case.shapes)):
        given = made(case, hopper)
        given[place].requires_grad_()
        assert not case.is_used(*given)
        with torch.no_grad():
            assert case.is_used(*given)


def test_tensor_subclasses_are_left_to_torch(hopper, case):
    first = 2 if case.is_used is norm_linear.has_linear_residual_kernel else 1  # after the outputs of other layers
    for place in range(first, len(case.shapes)):
        given = made(case, hopper)
        given[place] = Odd(case.shapes[place], hopper)
        assert not case.is_used(*given)


def test_a_norm_of_another_size_is_left_to_torch_which_reports_it(hopper):
    for name in ("fused_mlp", "layer_norm_linear"):
        case = CASES[name]
        for place in (1, 2):
            given = made(case, hopper)
            given[place] = torch.zeros(32, dtype=torch.bfloat16, device=hopper)
            assert not case.is_used(*given)


def test_warp_specialised_kernels_need_a_known_version_of_triton(hopper, monkeypatch):
    monkeypatch.setattr(availability, "_version", lambda: "3.5.1")
    case = CASES["out_proj_mlp"]
    assert not case.is_used(*made(case, hopper))


def test_warp_specialised_kernels_need_many_tokens(hopper, monkeypatch):
    """Fewer tokens are enough while a CUDA graph is captured."""
    case = CASES["out_proj_mlp"]
    few = case._replace(shapes=[(2, 17000, 96), *case.shapes[1:]])
    fewer = case._replace(shapes=[(2, 8000, 96), *case.shapes[1:]])
    assert [each.is_used(*made(each, hopper)) for each in (case, few, fewer)] == [True, False, False]
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert [each.is_used(*made(each, hopper)) for each in (case, few, fewer)] == [True, True, False]
