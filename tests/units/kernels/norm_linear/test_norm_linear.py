"""The layer_norm_linear and linear_residual kernels match their references, on a GPU or in Triton's interpreter."""

import random
from copy import deepcopy

import pytest
import torch
from torch import nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.fusion import attention as fused
from patchword.fusion.rules import fuse
from patchword.kernels.common.availability import needs_grad
from patchword.kernels.norm_linear import operation as kernel
from patchword.kernels.norm_linear.operation import has_layer_norm_linear_kernel, has_linear_residual_kernel
from patchword.kernels.norm_linear.reference import layer_norm_linear_reference, linear_residual_reference
from patchword.kernels.norm_linear.tuning import WIDTHS, is_known, launch
from patchword.layers import Attention, LayerScale, LinearProjection, Norm, Residual, SeparableProjection
from patchword.layers.attention.cache import Cache
from patchword.layers.attention.cross_attention import MemoryProjection
from support.helpers import difference
from support.kernel_tests import (
    DEVICE,
    assert_as_exact,
    assert_matches_module,
    assert_rounded,
    error,
    needs_triton,
)

OPS = torch.ops.patchword
DTYPE = torch.float32 if DEVICE.type == "cpu" else torch.float16  # on a GPU float32 takes long to compile
SIZES = [(64, 192), (96, 288), (96, 96), (128, 384), (160, 160), (192, 192), (64, 32)]


def given(rows, width, outputs, dtype=DTYPE, seed=0):
    """Returns the inputs of the two kernels, without eps."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape, by=1.0):
        return (torch.randn(*shape, generator=generator) * by).to(DEVICE, dtype)

    matrix, bias = normal(outputs, width, by=width**-0.5), normal(outputs)
    norm = [3 + normal(rows, width, by=2.0), 1 + normal(width, by=0.2), normal(width), matrix, bias]
    return norm, [normal(rows, outputs), normal(rows, width), matrix, bias]


def doubles(parts):
    return [None if part is None else part.double() for part in parts]


def check(norm, onto):
    """Both kernels are about as exact as their references in the same dtype."""
    found, reference = OPS.layer_norm_linear(*norm, 1e-5), layer_norm_linear_reference(*norm, 1e-5)
    assert_as_exact([found], [reference], [layer_norm_linear_reference(*doubles(norm), 1e-5)])
    found, reference = OPS.linear_residual(*onto), linear_residual_reference(*onto)
    assert_as_exact([found], [reference], [linear_residual_reference(*doubles(onto))])


@needs_triton
@pytest.mark.parametrize(("width", "outputs"), SIZES)
def test_kernels_match_references(width, outputs):
    norm, onto = given(random.Random(width + outputs).randint(1, 200), width, outputs)
    check(norm, onto)


def test_the_sizes_include_chunks_of_one_size_and_of_two():
    assert {launch(*sizes).rest > 0 for sizes in SIZES} == {True, False}


@needs_triton
@pytest.mark.parametrize("rows", [1, 63, 64, 65, 64 * 4 + 3])
def test_a_program_that_loops_over_tiles_computes_each_once(rows, monkeypatch):
    monkeypatch.setattr(kernel, "sm_count", lambda device: 1)
    monkeypatch.setattr(kernel, "launch", lambda *sizes: launch(*sizes)._replace(programs=2))
    norm, onto = given(rows, 64, 32)
    check(norm, onto)


@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("width", [96, 192])
def test_16_bit_tensors(dtype, width):
    if DEVICE.type == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter cannot multiply bfloat16")
    norm, onto = given(9, width, width, dtype)
    found = OPS.layer_norm_linear(*norm, 1e-5), OPS.linear_residual(*onto)
    assert {part.dtype for part in found} == {dtype}
    assert_rounded(found[:1], [layer_norm_linear_reference(*doubles(norm), 1e-5)], roundings=2)  # of the norm, too
    assert_rounded(found[1:], [linear_residual_reference(*doubles(onto))])


@needs_triton
def test_32_bit_tokens_and_16_bit_matrices():
    """As under autocast: the product is float16, the sum stays float32."""
    norm, onto = given(9, 96, 96, torch.float32)
    narrow = norm[3].half()
    found = OPS.layer_norm_linear(*norm[:3], narrow, norm[4], 1e-5)
    added = OPS.linear_residual(onto[0], onto[1].half(), narrow, onto[3])
    assert (found.dtype, added.dtype) == (torch.float16, torch.float32)
    assert_rounded([found], [layer_norm_linear_reference(*doubles(norm), 1e-5)], roundings=2)
    assert_rounded([added.half()], [linear_residual_reference(*doubles(onto))], roundings=2)


@needs_triton
def test_without_a_bias():
    norm, onto = given(5, 64, 32)
    norm[-1] = onto[-1] = None
    check(norm, onto)


def apart(vector):
    """Returns the same numbers with a stride of two."""
    return torch.stack([vector, vector + 1], 1)[:, 0]


@needs_triton
def test_norms_and_biases_may_have_any_stride():
    norm, onto = given(5, 64, 32)
    found = OPS.layer_norm_linear(norm[0], apart(norm[1]), apart(norm[2]), norm[3], apart(norm[4]), 1e-5)
    assert difference(found, OPS.layer_norm_linear(*norm, 1e-5)) == 0
    assert difference(OPS.linear_residual(*onto[:3], apart(onto[3])), OPS.linear_residual(*onto)) == 0


@needs_triton
def test_tokens_may_have_any_strides():
    norm, onto = given(12, 64, 64)

    def turned(tokens):
        return tokens.view(3, 4, 64).transpose(0, 1)

    found, added = (
        OPS.layer_norm_linear(turned(norm[0]), *norm[1:], 1e-5),
        OPS.linear_residual(*map(turned, onto[:2]), *onto[2:]),
    )
    assert found.shape == added.shape == (4, 3, 64)
    assert difference(found, turned(OPS.layer_norm_linear(*norm, 1e-5))) == 0
    assert difference(added, turned(OPS.linear_residual(*onto))) == 0
    across = norm[3].t().contiguous().t()
    assert difference(OPS.layer_norm_linear(*norm[:3], across, norm[4], 1e-5), OPS.layer_norm_linear(*norm, 1e-5)) == 0


@needs_triton
def test_without_tokens():
    norm, onto = given(0, 64, 192)
    assert OPS.layer_norm_linear(*norm, 1e-5).shape == OPS.linear_residual(*onto).shape == (0, 192)


@needs_triton
@pytest.mark.parametrize("wrong", ["tokens", "scale", "shift", "matrix", "bias", "eps"])
def test_a_changed_input_changes_layer_norm_linear(wrong):
    norm, _ = given(5, 96, 96)
    expected = layer_norm_linear_reference(*doubles(norm), 0.1)
    names = ["tokens", "scale", "shift", "matrix", "bias"]
    changed = [part.flip(-1) if name == wrong else part for name, part in zip(names, norm, strict=True)]
    assert error(OPS.layer_norm_linear(*changed, 0.2 if wrong == "eps" else 0.1), expected) > 1e-3


@needs_triton
@pytest.mark.parametrize("wrong", range(4), ids=["tokens", "branch", "matrix", "bias"])
def test_a_changed_input_changes_linear_residual(wrong):
    _, onto = given(5, 96, 96)
    changed = [part.flip(-1) if place == wrong else part for place, part in enumerate(onto)]
    assert error(OPS.linear_residual(*changed), linear_residual_reference(*doubles(onto))) > 1e-3


@needs_triton
def test_opcheck_accepts_the_registrations():
    norm, onto = given(3, 64, 32)
    few = ("test_schema", "test_faketensor")
    torch.library.opcheck(OPS.layer_norm_linear.default, (*norm, 1e-5), test_utils=few)
    torch.library.opcheck(OPS.linear_residual.default, (*onto[:3], None), test_utils=few)


@needs_triton
@pytest.mark.parametrize("name", ["layer_norm_linear", "linear_residual"])
def test_self_test_rejects_a_wrong_kernel(name, monkeypatch):
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
    assert kernel.matches_reference_at(64, DEVICE, dtype)
    original = getattr(kernel, name)
    monkeypatch.setattr(kernel, name, lambda tokens, *rest: original(tokens.flip(-1), *rest))
    assert not kernel.matches_reference_at(64, DEVICE, dtype)


@pytest.mark.parametrize(
    ("width", "outputs", "known"),
    [(96, 288, True), (64, 32, True), (192, 192, True), (192, 576, False), (384, 384, False), (48, 96, False),
     (96, 40, False)],
)  # fmt: skip
def test_which_sizes_are_known(width, outputs, known):
    assert is_known(width, outputs) == known


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("outputs", [32, 96, 160, 288, 576, 1024])
def test_a_plan_computes_each_column_once(width, outputs):
    plan = launch(width, outputs)
    assert plan.first + plan.second == width
    assert outputs % (plan.main + plan.rest) == 0
    assert all(size & (size - 1) == 0 for size in (plan.first, plan.second, plan.rows, plan.main, plan.rest))
    assert 1 <= plan.programs <= 4


@pytest.mark.parametrize(
    ("dtype", "needs_grad", "casts", "width", "outputs", "taken"),
    [
        (torch.bfloat16, False, False, 96, 96, True),
        (torch.float16, False, False, 96, 288, True),
        (torch.float32, False, False, 96, 96, False),
        (torch.float32, False, True, 96, 96, True),
        (torch.bfloat16, True, False, 96, 96, False),
        (torch.bfloat16, False, False, 384, 384, False),
        (torch.bfloat16, False, False, 96, 100, False),
    ],
    ids=["bfloat16", "float16", "float32", "autocast", "gradients", "wide", "odd"],
)
def test_when_they_are_chosen(hopper, dtype, needs_grad, casts, width, outputs, taken, monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: casts)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda kind: torch.bfloat16)

    def made(*shape, needs_grad=needs_grad):
        return torch.zeros(shape, dtype=dtype, device=hopper, requires_grad=needs_grad)

    tokens, norm, last = made(2, 5, width, needs_grad=False), [made(width), made(width)], [made(outputs, width)]
    stream = made(2, 5, outputs, needs_grad=False)
    for bias in (None, made(outputs)):
        assert has_layer_norm_linear_kernel(tokens, *norm, *last, bias) == taken
        assert has_linear_residual_kernel(stream, tokens, *last, bias) == taken
    with torch.no_grad():
        assert has_layer_norm_linear_kernel(tokens, *norm, *last, None) == (taken or needs_grad)
        assert has_linear_residual_kernel(stream, tokens, *last, None) == (taken or needs_grad)
    assert not has_layer_norm_linear_kernel(made(2, 5, 64), *norm, *last, None)
    assert not has_linear_residual_kernel(made(2, 1, outputs, needs_grad=False), tokens, *last, None)
    assert not has_linear_residual_kernel(stream, made(2, 5, width, needs_grad=True), *last, None)


def test_they_are_not_chosen_on_a_cpu():
    norm, onto = ([part.cpu().bfloat16() for part in parts] for parts in given(1, 96, 96))
    with torch.no_grad():
        assert not has_layer_norm_linear_kernel(*norm)
        assert not has_linear_residual_kernel(*onto)


# The fusion rules of attention


class Calls(list):
    """The kernels that were called, in order."""

    has = ("norm", "sum")  # the kernels that are available


@pytest.fixture
def calls(monkeypatch):
    """Replaces the kernels by their references on any machine, and records the calls; not used if a gradient is."""
    seen = Calls()

    def run(name, reference):
        return lambda *parts: seen.append(name) or reference(*parts)

    def has(name):
        return lambda *parts: name in seen.has and not needs_grad(*parts)

    monkeypatch.setattr(fused, "has_linear_residual_kernel", has("sum"))
    monkeypatch.setattr(fused, "linear_residual", run("sum", linear_residual_reference))
    monkeypatch.setattr(fused, "has_layer_norm_linear_kernel", has("norm"))
    monkeypatch.setattr(fused, "layer_norm_linear", run("norm", layer_norm_linear_reference))
    return seen


def residual(part=None, norm=None, where=Norm.PRE, **options):
    part = part or Attention(64, 2)
    return Residual(part, norm or nn.LayerNorm(64, 1e-3), where, **options).eval().requires_grad_(False)


def tokens_of(count=6):
    return torch.randn(2, count, 64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("has", [("norm", "sum"), ("norm",), ("sum",), ()], ids=["both", "norm", "sum", "neither"])
@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no bias"])
def test_a_residual_of_attention_uses_the_kernels(calls, has, bias):
    calls.has = has
    block = residual(Attention(64, 2, projection=LinearProjection(64, bias)), dropout=0.1, drop_path=0.1)
    found = fuse(block)(tokens_of(), Scope())
    assert tuple(calls) == has
    assert_matches_module(found, block, tokens_of(), Scope())


def test_masks_and_caches_are_respected(calls):
    block = residual()
    mask = torch.tensor([True, True, False, True, False, True])[None, None, None]
    found = fuse(block)(tokens_of(), Scope(mask=mask))
    assert_matches_module(found, block, tokens_of(), Scope(mask=mask))
    caches, wide = [Cache() for _ in range(3)], deepcopy(block).double()
    for part in tokens_of().split(3, 1):
        found = fuse(block)(part, Scope(cache=caches[0]))
        reference, exact = block(part, Scope(cache=caches[1])), wide(part.double(), Scope(cache=caches[2]))
        assert_as_exact([found], [reference], [exact])
    assert [cache.length for cache in caches] == [6, 6, 6]
    assert calls == ["norm", "sum"] * 3


def test_another_projection_uses_linear_residual_only(calls):
    block, scope = residual(Attention(64, 2, projection=SeparableProjection(64))), Scope(grid=Grid(2, 3))
    found = fuse(block)(tokens_of(), scope)
    assert calls == ["sum"]
    assert_matches_module(found, block, tokens_of(), scope)


class _Projection(LinearProjection):
    pass


class _Linear(nn.Linear):
    pass


def _with(name, part):
    block = residual()
    block.set_submodule(name, part.requires_grad_(False))
    return block


SOME = {  # the kernels that are still used
    "a post-norm": (lambda: residual(where=Norm.POST), []),
    "a norm of the branch": (lambda: residual(where=Norm.BRANCH), []),
    "a scaled branch": (lambda: residual(scale=LayerScale(64)), []),
    "dropout of the branch": (lambda: residual(dropout=0.1).train(), []),
    "drop path": (lambda: residual(drop_path=0.1).train(), []),
    "everything needs a gradient": (lambda: residual().requires_grad_(), []),
    "another norm": (lambda: residual(norm=nn.RMSNorm(64)), ["sum"]),
    "a norm without bias": (lambda: residual(norm=nn.LayerNorm(64, bias=False)), ["sum"]),
    "another class of projection": (lambda: residual(Attention(64, 2, projection=_Projection(64))), ["sum"]),
    "another class of matrix": (lambda: _with("sublayer.projection.joint", _Linear(64, 192)), ["sum"]),
    "another class of output": (lambda: _with("sublayer.output", _Linear(64, 64)), ["norm"]),
}


@pytest.mark.parametrize("case", SOME)
def test_unsupported_parts_are_not_fused(calls, case):
    make, left = SOME[case]
    block = make()
    found = fuse(block)(tokens_of(), Scope())
    assert calls == left
    if block.where is Norm.PRE and not block.training:
        assert_matches_module(found, block, tokens_of(), Scope())


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("sublayer", []),
        ("norm", ["sum"]),
        ("sublayer.projection", ["sum"]),
        ("sublayer.projection.joint", ["sum"]),
        ("sublayer.output", ["norm"]),
    ],
)
def test_parts_with_hooks_are_not_fused(calls, name, left):
    block, seen = residual(), []
    block.get_submodule(name).register_forward_hook(lambda *_: seen.append(name))
    fuse(block)(tokens_of(), Scope())
    assert (calls, seen) == (left, [name])


@pytest.mark.parametrize("name", ["norm", "sublayer.projection", "sublayer.output"])
def test_every_part_that_needs_a_gradient_gets_it(calls, name):
    block = residual()
    block.get_submodule(name).requires_grad_(True)
    fuse(block)(tokens_of(), Scope()).square().mean().backward()
    learned = {each for each, part in block.named_parameters() if part.grad is not None}
    assert learned == {each for each, part in block.named_parameters() if part.requires_grad}
    assert calls == (["norm"] if name == "sublayer.output" else [])


def test_cross_attention_is_not_fused(calls):
    block = residual(Attention(64, 2, projection=MemoryProjection(64)))
    fuse(block)(tokens_of(), Scope(memory=tokens_of(4)))
    assert not calls


@needs_triton
def test_a_compiled_residual_calls_two_operations(monkeypatch):
    for name in ("has_linear_residual_kernel", "has_layer_norm_linear_kernel"):
        monkeypatch.setattr(fused, name, lambda *parts: True)
    block, tokens = residual().to(DEVICE).half(), tokens_of().to(DEVICE).half()
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    found = torch.compile(fuse(block), backend=backend, fullgraph=True)(tokens, Scope())
    assert {"patchword.layer_norm_linear", "patchword.linear_residual"} <= set(seen)
    assert_rounded([found], [deepcopy(block).double()(tokens.double(), Scope())], roundings=2)
