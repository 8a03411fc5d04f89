"""The patch_merge_norm kernel matches its reference, on a GPU or in Triton's interpreter."""

import random
from copy import deepcopy

import pytest
import torch
from torch import nn

from patchword.fusion import stem as fused
from patchword.fusion.rules import fuse
from patchword.kernels.stem import patch_merge_norm as kernel
from patchword.kernels.stem.patch_merge_norm import has_patch_merge_norm_kernel
from patchword.kernels.stem.reference import patch_merge_norm_reference, side_by_side
from patchword.layers import PatchMerge
from support.helpers import difference
from support.kernel_tests import DEVICE, assert_as_exact, assert_rounded, error, needs_triton


def given(batch, channels, height, width, dtype=torch.float32, seed=0):
    """Returns a channels-last map, and the scale and shift of a norm."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(batch, height, width, channels, generator=generator)
    scale, shift = torch.randn(2, 4 * channels, generator=generator)
    return [part.to(DEVICE, dtype) for part in (3 + 2 * tokens.permute(0, 3, 1, 2), scale, shift)]


def by_kernel(*parts, eps=1e-5, dtype=torch.float32):
    return torch.ops.patchword.patch_merge_norm(*parts, eps, dtype)


def exactly(parts):
    return patch_merge_norm_reference(*(part.double() for part in parts), 1e-5)


def check(found, parts):
    """The kernel is about as exact as the reference."""
    expected = patch_merge_norm_reference(*parts, 1e-5)
    assert found.shape == expected.shape
    assert_as_exact([found], [expected], [exactly(parts)])


def test_patches_are_concatenated_in_the_order_of_swin():
    """(0, 0), (1, 0), (0, 1), (1, 1) of each 2 x 2 square"""
    numbers = torch.arange(24.0).view(1, 1, 4, 6)
    assert side_by_side(numbers)[0].tolist()[:2] == [[0, 6, 1, 7], [2, 8, 3, 9]]
    assert side_by_side(numbers)[0].tolist()[3] == [12, 18, 13, 19]


@needs_triton
@pytest.mark.parametrize("channels", [16, 24, 96, 128, 192, 384])
def test_kernel_matches_reference(channels):
    numbers = random.Random(channels)
    height, width = (2 * numbers.randint(1, 5) for _ in range(2))
    parts = given(numbers.randint(1, 3), channels, height, width, seed=channels)
    check(by_kernel(*parts), parts)


@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("tokens", [torch.float32, torch.float16], ids=str)
def test_16_bit_outputs(dtype, tokens):
    parts = given(2, 96, 6, 4, tokens)
    found = by_kernel(*parts, dtype=dtype)
    assert found.dtype == dtype
    assert_rounded([found], [exactly(parts)])


@needs_triton
def test_maps_may_have_any_strides():
    feature_map, scale, shift = given(2, 32, 8, 6)
    for view in (feature_map[:, :, 2:, 2:], feature_map.contiguous(), feature_map.transpose(2, 3), feature_map[1:]):
        check(by_kernel(view, scale, shift), (view, scale, shift))
    apart = torch.stack([scale, shift], 1)[:, 0]
    assert difference(by_kernel(feature_map, apart, shift), by_kernel(feature_map, scale, shift)) == 0
    assert by_kernel(feature_map[:0], scale, shift).shape == (0, 12, 128)


@needs_triton
@pytest.mark.parametrize("wrong", ["tokens", "sides", "scale", "shift", "eps"])
def test_a_changed_input_changes_the_output(wrong):
    parts = given(1, 32, 4, 6)
    changed = list(parts)
    if wrong == "sides":
        changed[0] = parts[0].flip(2)
    elif wrong != "eps":
        place = ["tokens", "scale", "shift"].index(wrong)
        changed[place] = parts[place].flip(1 if wrong == "tokens" else 0)
    assert error(by_kernel(*changed, eps=0.5 if wrong == "eps" else 1e-5), exactly(parts)) > 1e-3


@needs_triton
def test_opcheck_accepts_the_registration():
    torch.library.opcheck(torch.ops.patchword.patch_merge_norm.default, (*given(1, 32, 2, 4), 1e-5, torch.float16))


@needs_triton
@pytest.mark.parametrize("wrong", ["mean", "size"])
def test_self_test_rejects_a_wrong_kernel(monkeypatch, wrong):
    """The other reference does not subtract the mean, or divides all tokens by the same number."""

    def other_reference(feature_map, scale, shift, eps):
        joined = side_by_side(feature_map)
        mean, size = joined.mean(-1, keepdim=True), joined.std(-1, keepdim=True, correction=0)
        return (joined - mean * (wrong != "mean")) / (0.7 if wrong == "size" else size) * scale + shift

    assert kernel.matches_reference(DEVICE, torch.float16)
    monkeypatch.setattr(kernel, "patch_merge_norm_reference", other_reference)
    assert not kernel.matches_reference(DEVICE, torch.float16)


@pytest.mark.parametrize(
    ("shape", "dtype", "needs_grad", "casts", "taken"),
    [
        ((2, 4, 6, 96), torch.bfloat16, False, False, True),
        ((2, 4, 6, 96), torch.float32, False, False, False),
        ((2, 4, 6, 96), torch.float32, False, True, True),
        ((2, 4, 6, 96), torch.bfloat16, True, False, False),
        ((2, 4, 5, 96), torch.bfloat16, False, False, False),
        ((2, 4, 6, 100), torch.bfloat16, False, False, False),
        ((2, 4, 6, 4096), torch.bfloat16, False, False, False),
    ],
    ids=["bfloat16", "float32", "autocast", "gradients", "odd", "odd channels", "wide"],
)
def test_when_it_is_chosen(hopper, shape, dtype, needs_grad, casts, taken, monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: casts)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda kind: torch.bfloat16)
    channels = shape[-1]
    feature_map = torch.zeros(shape, dtype=dtype, device=hopper).permute(0, 3, 1, 2)
    apart = torch.zeros(feature_map.shape, dtype=dtype, device=hopper)
    sizes = (4 * channels,), (4 * channels,), (2 * channels, 4 * channels)
    weights = [torch.zeros(size, dtype=dtype, device=hopper, requires_grad=needs_grad) for size in sizes]
    assert has_patch_merge_norm_kernel(feature_map, *weights) == taken
    assert not has_patch_merge_norm_kernel(apart, *weights)
    with torch.no_grad():
        assert has_patch_merge_norm_kernel(feature_map, *weights) == (taken or needs_grad)


@pytest.fixture
def calls(monkeypatch):
    """Replaces the kernel by its reference on any machine, and records the calls."""
    seen = []

    def run(feature_map, scale, shift, matrix, eps):
        seen.append(eps)
        return patch_merge_norm_reference(feature_map, scale, shift, eps)

    monkeypatch.setattr(fused, "has_patch_merge_norm_kernel", lambda *given: True)
    monkeypatch.setattr(fused, "patch_merge_norm", run)
    return seen


def test_a_patch_merge_uses_the_kernel(calls):
    part, feature_map = PatchMerge(8), torch.randn(2, 8, 5, 6)
    nn.init.normal_(part.norm.weight)
    found, grid = fuse(part)(feature_map)
    assert calls == [1e-5]
    expected, _ = part(feature_map)
    assert calls == [1e-5]
    assert found.shape == (2, grid.tokens, 16) == (2, 9, 16)
    exact, _ = deepcopy(part).double()(feature_map.double())
    assert_as_exact([found], [expected], [exact])


def _with_hook(part):
    part.norm.register_forward_hook(lambda *_: None)


def _with_another_norm(part):
    part.norm = nn.RMSNorm(32)


def _without_bias(part):
    part.norm = nn.LayerNorm(32, bias=False)


class _Extended(nn.Linear):
    pass


def _with_another_linear(part):
    part.reduce = _Extended(32, 16, bias=False)


@pytest.mark.parametrize("change", [_with_hook, _with_another_norm, _without_bias, _with_another_linear])
def test_unsupported_modules_are_not_fused(calls, change):
    part = PatchMerge(8)
    change(part)
    fuse(part)(torch.randn(1, 8, 4, 4))
    assert not calls


@needs_triton
def test_a_compiled_merge_calls_it_as_one_operation(monkeypatch):
    monkeypatch.setattr(fused, "has_patch_merge_norm_kernel", lambda *given: True)
    part, tokens = PatchMerge(32).to(DEVICE).half(), torch.randn(2, 4, 6, 32, device=DEVICE).half()
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    with torch.no_grad():
        found, _ = torch.compile(fuse(part), backend=backend, fullgraph=True)(tokens.permute(0, 3, 1, 2))
        exact, _ = deepcopy(part).double()(tokens.permute(0, 3, 1, 2).double())
    assert "patchword.patch_merge_norm" in seen
    assert_rounded([found], [exact], roundings=2)
