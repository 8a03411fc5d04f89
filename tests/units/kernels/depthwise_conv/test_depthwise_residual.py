"""The depthwise_residual kernel matches its reference, on a GPU or in Triton's interpreter."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.fusion import convolution as fused
from patchword.fusion.rules import fuse
from patchword.kernels.depthwise_conv import depthwise_residual as kernel
from patchword.kernels.depthwise_conv.depthwise_residual import has_depthwise_residual_kernel
from patchword.kernels.depthwise_conv.reference import depthwise_residual_reference
from patchword.kernels.depthwise_conv.tuning import launch
from patchword.layers import ConditionalPosition, Residual
from support.helpers import difference
from support.kernel_tests import (
    DEVICE,
    MAPS,
    assert_matches_module,
    assert_rounded,
    assert_tokens_as_exact,
    needs_triton,
)


def given(batch, height, map_width, width=64, dtype=torch.float32):
    generator = torch.Generator().manual_seed(batch + height + map_width)
    shapes = (batch, height * map_width, width), (width, 1, 3, 3), (width,)
    tensors = (torch.randn(shape, generator=generator).to(DEVICE, dtype) for shape in shapes)
    return *tensors, height, map_width


def by_kernel(*parts):
    return torch.ops.patchword.depthwise_residual(*parts)


def exactly(tokens, weight, bias, *sides):
    return depthwise_residual_reference(tokens.double(), weight.double(), bias.double(), *sides)


@needs_triton
@pytest.mark.parametrize("width", [64, 96, 128])
@pytest.mark.parametrize("shape", MAPS)
def test_every_token_matches_the_reference(shape, width):
    parts = given(*MAPS[shape], width)
    assert_tokens_as_exact(by_kernel(*parts), depthwise_residual_reference(*parts), exactly(*parts))


@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_16_bit_tokens(dtype):
    """The weight and the bias may be float32."""
    if dtype == torch.bfloat16 and DEVICE.type == "cpu":
        pytest.skip("Triton's interpreter cannot convert bfloat16 to float32 here")
    tokens, weight, bias, *sides = given(2, 8, 6, dtype=dtype)
    exact = exactly(tokens, weight, bias, *sides)
    for filter_of in ((weight, bias), (weight.float(), bias.float())):
        found = by_kernel(tokens, *filter_of, *sides)
        assert found.dtype == dtype
        assert_rounded([found], [exact])


@needs_triton
def test_a_nan_reaches_only_its_neighbours():
    """It reaches no other image, and not the opposite border."""
    tokens, *rest = given(2, 9, 4)
    tokens[0, 5 * 4 + 3] = torch.nan
    seen = by_kernel(tokens, *rest).isnan().any(-1).view(2, 9, 4)
    expected = torch.zeros_like(seen)
    expected[0, 4:7, 2:] = True
    assert torch.equal(seen, expected)


@needs_triton
def test_tensors_may_have_any_strides():
    tokens, weight, bias, *sides = given(2, 5, 7)
    expected = by_kernel(tokens, weight, bias, *sides)
    turned, apart = tokens.transpose(1, 2).contiguous().transpose(1, 2), torch.stack([bias, bias], 1)[:, 0]
    assert (
        difference(by_kernel(turned, weight.transpose(2, 3).contiguous().transpose(2, 3), apart, *sides), expected) == 0
    )
    assert by_kernel(tokens[:0], weight, bias, *sides).shape == (0, 35, 64)


@needs_triton
@pytest.mark.parametrize("wrong", ["tokens", "weight", "taps", "bias", "sides"])
def test_a_changed_input_changes_the_output(wrong):
    tokens, weight, bias, *sides = given(1, 5, 7)
    others = {
        "tokens": (tokens.flip(1), weight, bias, *sides),
        "weight": (tokens, weight.flip(0), bias, *sides),
        "taps": (tokens, weight.flip(2), bias, *sides),
        "bias": (tokens, weight, bias.flip(0), *sides),
        "sides": (tokens, weight, bias, *sides[::-1]),
    }
    assert difference(by_kernel(*others[wrong]).double(), exactly(tokens, weight, bias, *sides)) > 0.1


@needs_triton
def test_opcheck_accepts_the_registration():
    torch.library.opcheck(torch.ops.patchword.depthwise_residual.default, given(1, 2, 3))


@needs_triton
def test_self_test_rejects_a_wrong_kernel(monkeypatch):
    """The other reference convolves each row of the map alone."""
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
    assert kernel.matches_reference(DEVICE, dtype)

    def other_reference(tokens, weight, *rest):
        return depthwise_residual_reference(
            tokens, weight * torch.tensor([0.0, 1.0, 0.0], device=DEVICE)[:, None], *rest
        )

    monkeypatch.setattr(kernel, "depthwise_residual_reference", other_reference)
    assert not kernel.matches_reference(DEVICE, dtype)


@pytest.mark.parametrize("sides", [(14, 14), (7, 7), (9, 5), (1, 1)])
def test_programs_cover_all_lanes(sides):
    plan, programs, warps = launch(3, *sides, 96)
    lanes = -(-3 * sides[1] // (plan.columns * plan.lanes))
    assert programs == lanes * -(-sides[0] // plan.span) * (96 // plan.block)
    assert 32 * warps > plan.block
    assert plan.full_programs == (3 * sides[1] // plan.columns % plan.lanes == 0)


@pytest.mark.parametrize(
    ("width", "dtype", "needs_grad", "taken"),
    [
        (64, torch.bfloat16, False, True),
        (48, torch.bfloat16, False, False),
        (64, torch.float32, False, False),
        (64, torch.bfloat16, True, False),
    ],
)
def test_when_it_is_chosen(hopper, width, dtype, needs_grad, taken, monkeypatch):
    shapes = (2, 6, width), (width, 1, 3, 3), (width,)
    parts = [torch.zeros(shape, dtype=dtype, device=hopper, requires_grad=needs_grad) for shape in shapes]
    assert has_depthwise_residual_kernel(*parts) == taken
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert not has_depthwise_residual_kernel(*parts)


@torch.no_grad()
def test_conditional_positions_use_the_kernel(monkeypatch):
    calls = []

    def run(*parts):
        calls.append(parts)
        return depthwise_residual_reference(*parts)

    part, tokens, scope = ConditionalPosition(8), torch.randn(2, 12, 8), Scope(grid=Grid(3, 4))
    residual = Residual(part, nn.Identity())
    plain = deepcopy(residual)
    for name in ("has_depthwise_conv_kernel", "has_depthwise_residual_kernel", "short_dtype"):
        monkeypatch.setattr(fused, name, lambda *given: True)
    monkeypatch.setattr(fused, "depthwise_residual", run)
    assert_matches_module(fuse(residual)(tokens, scope), plain, tokens, scope)
    assert len(calls) == 1
    seen = []
    part.register_forward_hook(lambda *given: seen.append(1))
    assert_matches_module(fuse(residual)(tokens, scope), plain, tokens, scope)
    assert (len(calls), len(seen)) == (1, 1)
