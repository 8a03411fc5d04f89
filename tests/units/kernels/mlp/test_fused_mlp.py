"""The fused_mlp kernel matches its reference, on a GPU or in Triton's interpreter.

Sizes are drawn at random from fixed seeds: rows that do not fill a tile, matrices that stay in shared memory or do not.
"""

import random
from copy import deepcopy

import pytest
import torch
from torch import nn

from patchword.core.scope import Scope
from patchword.fusion import mlp as fused
from patchword.fusion.rules import fuse
from patchword.kernels.mlp import fused_mlp as kernel
from patchword.kernels.mlp.fused_mlp import has_fused_mlp_kernel
from patchword.kernels.mlp.reference import FORMS, Weights, fused_mlp_reference
from patchword.kernels.mlp.tuning import WIDTHS, is_known, launch
from patchword.layers import FeedForward, LayerScale, Norm, QuickGelu, Residual
from support.helpers import difference
from support.kernel_tests import (
    DEVICE,
    assert_as_exact,
    assert_matches_module,
    assert_rounded,
    error,
    needs_triton,
)

DTYPE = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32  # the kernel is used for 16 bits only


def given(rows, width, hidden, dtype=DTYPE, seed=0):
    """Returns tokens and weights."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape, by=1.0):
        return (torch.randn(*shape, generator=generator) * by).to(DEVICE, dtype)

    up, down = normal(hidden, width, by=width**-0.5), normal(width, hidden, by=hidden**-0.5)
    weights = Weights(1 + normal(width, by=0.2), normal(width), up, normal(hidden), down, normal(width))
    return 3 + normal(rows, width, by=2.0), weights


def by_kernel(tokens, weights, eps=1e-5, form="gelu"):
    return torch.ops.patchword.fused_mlp(tokens, *weights, eps, form)


def check(tokens, weights, form="gelu"):
    """The kernel is about as exact as the reference in the same dtype."""
    reference = fused_mlp_reference(tokens, weights, 1e-5, form)
    assert_as_exact([by_kernel(tokens, weights, form=form)], [reference], [exactly(tokens, weights, form=form)])


def exactly(tokens, weights, eps=1e-5, form="gelu"):
    return fused_mlp_reference(tokens.double(), Weights(*(part.double() for part in weights)), eps, form)


@needs_triton
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", range(2))
def test_kernel_matches_reference(width, seed):
    numbers = random.Random(f"{width} {seed}")
    rows, hidden = numbers.randint(1, 260), 32 * numbers.randint(1, 9)
    tokens, weights = given(rows, width, hidden, seed=seed)
    check(tokens, weights)


@needs_triton
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("width", "hidden"), [(64, 128), (96, 544)], ids=["stays", "passes by"])
def test_both_ways_to_launch(width, hidden, form):
    assert launch(width, hidden, 4).stays == (width == 64)
    tokens, weights = given(130, width, hidden)
    check(tokens, weights, form)


@needs_triton
def test_a_program_that_loops_over_tiles_computes_each_once(monkeypatch):
    monkeypatch.setattr(kernel, "sm_count", lambda device: 2)
    tokens, weights = given(128 * 4 + 1, 64, 64)
    check(tokens, weights)


def activate(points, form="gelu"):
    """The activation alone: the norm returns 0, so that the biases remain, which an identity matrix copies."""
    none, many = torch.zeros(256, device=DEVICE), len(points)
    up, down = torch.zeros(many, 256, device=DEVICE), torch.zeros(256, many, device=DEVICE)
    down[:many] = torch.eye(many, device=DEVICE)
    return by_kernel(torch.zeros(1, 256, device=DEVICE), Weights(none, none, up, points, down, none), form=form)[0]


@needs_triton
@pytest.mark.skipif(DEVICE.type == "cuda", reason="float32 matrices do not fit into the shared memory of a GPU")
def test_the_exact_gelu_is_exact():
    """For x < 0, gelu(x) / x is erfc(|x| / sqrt(2)) / 2; for all x, gelu(x) - gelu(-x) = x."""
    grid, eps = torch.cat([torch.linspace(0.005, 5, 320), torch.linspace(5.1, 10, 64)]).to(DEVICE), 2**-23
    for points in grid.split(128):
        both = activate(torch.cat([-points, points]))
        exact = torch.special.erfc(points.double() / 2**0.5)
        reference = torch.special.erfc(points / 2**0.5)
        found = 2 * both[:128].double() / -points.double()
        ours, theirs = ((each - exact).abs().max() for each in (found, reference))
        assert ours <= 3 * max(theirs, eps / 2)
        assert (both[128:] - both[:128] - points).abs().max() <= 0.75 * eps * points.max()


@needs_triton
@pytest.mark.filterwarnings("ignore:overflow")  # numpy's, in the interpreter
@pytest.mark.parametrize("form", FORMS)
def test_extreme_numbers(form):
    points = torch.tensor([0.0, 1e4, -1e4, 1e30, -1e30, 40.0, -40.0, -0.0]).repeat(4).to(DEVICE)
    assert torch.allclose(activate(points, form)[:32], points.clamp(min=0), rtol=0, atol=1e-20)
    points[3] = torch.nan
    assert activate(points, form).isnan().all()  # in every sum


@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("width", [64, 192])
def test_16_bit_tensors(dtype, width):
    if DEVICE.type == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter cannot multiply bfloat16")
    tokens, weights = given(9, width, 64, dtype)
    found = by_kernel(tokens, weights)
    assert found.dtype == dtype
    assert_rounded([found], [exactly(tokens, weights)], roundings=2)


@needs_triton
def test_32_bit_tokens_and_16_bit_matrices():
    """As under autocast."""
    tokens, weights = given(9, 96, 64, torch.float32)
    narrow = weights._replace(up=weights.up.half(), down=weights.down.half())
    found = by_kernel(tokens, narrow)
    assert found.dtype == torch.float32
    assert_rounded([found.half()], [exactly(tokens, weights)], roundings=2)


@needs_triton
def test_tokens_may_have_any_strides():
    tokens, weights = given(12, 64, 64)
    turned = tokens.view(3, 4, 64).transpose(0, 1)
    found = by_kernel(turned, weights)
    assert found.shape == turned.shape
    assert difference(found, by_kernel(turned.contiguous(), weights)) == 0
    assert by_kernel(tokens[:0], weights).shape == (0, 64)
    apart = Weights(*(torch.stack([part, part + 1], -1)[..., 0] for part in weights))
    assert difference(by_kernel(tokens, apart), by_kernel(tokens, weights)) == 0


@needs_triton
@pytest.mark.parametrize("wrong", [*Weights._fields, "tokens", "eps", "form"])
def test_a_changed_input_changes_the_output(wrong):
    tokens, weights = given(5, 96, 64)
    expected = exactly(tokens, weights, 0.1)
    choices = {"eps": 0.2} if wrong == "eps" else {"eps": 0.1}
    if wrong in Weights._fields:
        weights = weights._replace(**{wrong: getattr(weights, wrong).flip(0)})
    elif wrong == "tokens":
        tokens = tokens.flip(1)
    else:
        choices["form"] = "quick-gelu" if wrong == "form" else "gelu"
    assert error(by_kernel(tokens, weights, **choices), expected) > 1e-3


@needs_triton
def test_opcheck_accepts_the_registration():
    tokens, weights = given(3, 64, 32)
    torch.library.opcheck(torch.ops.patchword.fused_mlp.default, (tokens, *weights, 1e-5, "gelu"))


@needs_triton
def test_self_test_rejects_a_wrong_kernel(monkeypatch):
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
    assert kernel.matches_reference_at(64, 64, DEVICE, dtype)
    original = kernel.fused_mlp
    monkeypatch.setattr(kernel, "fused_mlp", lambda *given: original(*given[:-2], 1.0, given[-1]))
    assert not kernel.matches_reference_at(64, 64, DEVICE, dtype)


@pytest.mark.parametrize(
    ("width", "hidden", "known"),
    [(96, 384, True), (64, 32, True), (384, 1536, False), (48, 192, False), (96, 40, False)],
)
def test_which_sizes_are_known(width, hidden, known):
    assert is_known(width, hidden) == known


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("hidden", [32, 96, 256, 512, 1024])
def test_a_plan_covers_all_channels(width, hidden):
    plan = launch(width, hidden, 2)
    assert plan.first + plan.second == width
    assert hidden % plan.chunk == 0
    assert all(size & (size - 1) == 0 for size in (plan.first, plan.second, plan.rows, plan.chunk))


@pytest.mark.parametrize(
    ("dtype", "needs_grad", "casts", "width", "taken"),
    [
        (torch.bfloat16, False, False, 96, True),
        (torch.float16, False, False, 96, True),
        (torch.float32, False, False, 96, False),
        (torch.float32, False, True, 96, True),
        (torch.bfloat16, True, False, 96, False),
        (torch.bfloat16, False, False, 384, False),
    ],
    ids=["bfloat16", "float16", "float32", "autocast", "gradients", "wide"],
)
def test_when_it_is_chosen(hopper, dtype, needs_grad, casts, width, taken, monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: casts)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda kind: torch.bfloat16)
    parts = [(width,), (width,), (64, width), (64,), (width, 64), (width,)]
    weights = Weights(*(torch.zeros(shape, dtype=dtype, device=hopper, requires_grad=needs_grad) for shape in parts))
    tokens = torch.zeros(2, 5, width, dtype=dtype, device=hopper)
    assert has_fused_mlp_kernel(tokens, weights) == taken
    with torch.no_grad():
        assert has_fused_mlp_kernel(tokens, weights) == (taken or needs_grad)


def test_it_is_not_chosen_on_a_cpu():
    weights = Weights(*(part.cpu().bfloat16() for part in given(1, 96, 64)[1]))
    with torch.no_grad():
        assert not has_fused_mlp_kernel(torch.zeros(1, 96, dtype=torch.bfloat16), weights)


@pytest.fixture
def calls(monkeypatch):
    """Replaces the kernel by its reference on any machine, and records the calls."""
    seen = []

    def run(*called):
        seen.append(called)
        return fused_mlp_reference(*called)

    monkeypatch.setattr(fused, "has_fused_mlp_kernel", lambda tokens, weights: True)
    monkeypatch.setattr(fused, "fused_mlp", run)
    return seen


def residual(activation=None, where=Norm.PRE, dropout=0.0, norm=None, **options):
    return Residual(FeedForward(64, 96, activation, dropout), norm or nn.LayerNorm(64, 1e-3), where, **options).eval()


class _Extended(FeedForward):
    pass


def _hooked(part):
    def make():
        made = residual()
        made.get_submodule(part).register_forward_hook(lambda *_: None)
        return made

    return make


PLAIN = {
    "a post-norm": lambda: residual(where=Norm.POST),
    "another activation": lambda: residual(nn.ReLU()),
    "another norm": lambda: residual(norm=nn.RMSNorm(64)),
    "a norm without bias": lambda: residual(norm=nn.LayerNorm(64, bias=False)),
    "a scaled branch": lambda: residual(scale=LayerScale(64)),
    "dropout inside": lambda: residual(dropout=0.1).train(),
    "dropout of the branch": lambda: Residual(FeedForward(64, 96), nn.LayerNorm(64), dropout=0.1).train(),
    "drop path": lambda: Residual(FeedForward(64, 96), nn.LayerNorm(64), drop_path=0.1).train(),
    "a subclass": lambda: Residual(_Extended(64, 96), nn.LayerNorm(64)),
    **{f"{part} has a hook": _hooked(part) for part in ("sublayer", "sublayer.up", "sublayer.activation", "norm")},
}


@pytest.mark.parametrize("case", PLAIN)
def test_unsupported_modules_are_not_fused(calls, case):
    block, tokens = PLAIN[case](), torch.randn(2, 3, 64)
    torch.manual_seed(0)
    found = fuse(block)(tokens, Scope())
    assert not calls
    torch.manual_seed(0)
    assert torch.equal(found, block(tokens, Scope()))


@pytest.mark.parametrize(
    ("activation", "form"),
    [(None, "gelu"), (nn.GELU(), "gelu"), (nn.GELU("tanh"), "gelu-tanh"), (QuickGelu(), "quick-gelu")],
    ids=str,
)
def test_a_residual_uses_the_kernel(calls, activation, form):
    block, tokens = residual(activation, dropout=0.1, drop_path=0.1), torch.randn(2, 3, 64)
    found = fuse(block)(tokens, Scope())
    assert [call[2:] for call in calls] == [(1e-3, form)]
    assert_matches_module(found, block, tokens, Scope())


@needs_triton
def test_a_compiled_residual_calls_it_as_one_operation(monkeypatch):
    monkeypatch.setattr(fused, "has_fused_mlp_kernel", lambda tokens, weights: True)
    block, tokens = residual().to(DEVICE).half(), torch.randn(2, 3, 64, device=DEVICE).half()
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    with torch.no_grad():
        found = torch.compile(fuse(block), backend=backend, fullgraph=True)(tokens, Scope())
        exact = deepcopy(block).double()(tokens.double(), Scope())
    assert "patchword.fused_mlp" in seen
    assert_rounded([found], [exact], roundings=2)
