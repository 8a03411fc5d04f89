"""The separable_qkv kernels match their reference, on a GPU or in Triton's interpreter.

Maps of odd sizes, of one row or one column, smaller and larger than a tile of tokens, which may cross images.
"""

from copy import deepcopy

import pytest
import torch
from torch import nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.fusion import convolution as fused
from patchword.fusion.rules import fuse
from patchword.kernels.depthwise_conv import separable_qkv as kernel
from patchword.kernels.depthwise_conv.reference import SeparableWeights, separable_qkv_reference
from patchword.kernels.depthwise_conv.separable_qkv import has_separable_qkv_kernel
from patchword.kernels.depthwise_conv.tuning import is_known
from patchword.layers import Attention, Interlaced, Pattern, SeparableProjection
from patchword.layers.attention.projection import SeparableLinear
from support.helpers import pixels, randomise
from support.kernel_tests import (
    DEVICE,
    assert_as_exact,
    assert_matches_module,
    assert_rounded,
    assert_tokens_as_exact,
    error,
    needs_triton,
)
from support.kernel_tests import MAPS as SHAPES

MAPS = {name: (64, *shape) for name, shape in SHAPES.items()} | {
    "blocks of 32 channels": (96, 3, 7, 8),
    "wider": (256, 1, 3, 50),
    "wider still": (512, 1, 2, 3),
}


def given(width, batch, height, map_width, dtype=torch.float32):
    """Returns tokens, the weights for queries, keys and values, eps, and the height and width of the map."""
    generator = torch.Generator().manual_seed(width + batch)

    def normal(*shape, by=1.0):
        return (torch.randn(*shape, generator=generator) * by).to(DEVICE, dtype)

    def part():
        norm = 1 + normal(width, by=0.2), normal(width), normal(width), 0.5 + normal(width).abs()
        return SeparableWeights(
            normal(width, 1, 3, 3, by=0.4), *norm, normal(width, width, by=width**-0.5), normal(width)
        )

    return normal(batch, height * map_width, width), [part() for _ in range(3)], 1e-3, height, map_width


def by_kernel(tokens, parts, eps, height, map_width):
    norms = [list(part[:5]) for part in parts]
    filtered = torch.ops.patchword.separable_filters(tokens, *norms, eps, height, map_width)
    pairs = ([part.matrix, part.bias] for part in parts)
    return torch.cat(list(torch.ops.patchword.separable_products(filtered, *pairs)), -1)


def exactly(tokens, parts, *rest):
    return separable_qkv_reference(
        tokens.double(), [SeparableWeights(*(each.double() for each in part)) for part in parts], *rest
    )


def check(found, *given):
    """The kernel is about as exact as the reference in the same dtype."""
    assert_as_exact([found], [separable_qkv_reference(*given)], [exactly(*given)])


@needs_triton
@pytest.mark.parametrize("shape", MAPS)
def test_kernel_matches_reference(shape):
    parts = given(*MAPS[shape])
    check(by_kernel(*parts), *parts)


@needs_triton
def test_every_token_matches_the_reference():
    """At the border of a map, too, where a mean over all tokens would hide one wrong neighbour."""
    parts = given(64, 3, 5, 9)
    assert_tokens_as_exact(by_kernel(*parts), separable_qkv_reference(*parts), exactly(*parts))


@needs_triton
@pytest.mark.parametrize("width", [64, 96, 256])
def test_16_bit_tensors(width):
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16  # the interpreter cannot multiply bfloat16
    parts = given(width, 2, 5, 7, dtype)
    found = by_kernel(*parts)
    assert found.dtype == dtype
    assert_rounded([found], [exactly(*parts)], roundings=2)


@needs_triton
def test_32_bit_norm_and_16_bit_matrices():
    """As under autocast."""
    tokens, parts, *rest = given(64, 2, 5, 7)
    narrow = [part._replace(matrix=part.matrix.half(), bias=part.bias.half()) for part in parts]
    found = by_kernel(tokens.half(), narrow, *rest)
    assert found.dtype == torch.float16
    assert_rounded([found], [exactly(tokens, parts, *rest)], roundings=2)


@needs_triton
def test_tokens_and_weights_may_have_any_strides():
    tokens, parts, *rest = given(64, 2, 5, 7)
    turned = tokens.transpose(1, 2).contiguous().transpose(1, 2)
    scattered = [part._replace(matrix=part.matrix.t().contiguous().t()) for part in parts]
    check(by_kernel(turned, scattered, *rest), tokens, parts, *rest)
    assert by_kernel(tokens[:0], parts, *rest).shape == (0, 35, 192)


@needs_triton
@pytest.mark.parametrize(("place", "wrong"), list(enumerate(SeparableWeights._fields)))
def test_a_changed_input_changes_its_own_output_only(place, wrong):
    which, (tokens, parts, *rest) = place % 3, given(64, 1, 3, 3)
    expected = exactly(tokens, parts, *rest).chunk(3, -1)
    parts[which] = parts[which]._replace(**{wrong: getattr(parts[which], wrong).flip(0)})
    found = by_kernel(tokens, parts, *rest).chunk(3, -1)
    assert [error(one, other) > 1e-3 for one, other in zip(found, expected, strict=True)] == [
        each == which for each in range(3)
    ]


@needs_triton
@pytest.mark.parametrize("tap", [0, 5, 7])
def test_a_changed_tap_changes_the_output(tap):
    tokens, parts, *rest = given(64, 1, 3, 3)
    expected = exactly(tokens, parts, *rest)
    parts[1].taps.view(-1, 9)[:, tap] += 0.1
    assert error(by_kernel(tokens, parts, *rest), expected) > 1e-3


@needs_triton
@pytest.mark.parametrize("changed", [{"eps": 0.1}, {"height": 9, "map_width": 4}], ids=["eps", "another map"])
def test_eps_and_the_sides_of_the_map_change_the_output(changed):
    tokens, parts, eps, height, map_width = given(64, 1, 4, 9)
    numbers = {"eps": eps, "height": height, "map_width": map_width}
    found = by_kernel(tokens, parts, **(numbers | changed))
    assert error(found, exactly(tokens, parts, *numbers.values())) > 1e-2
    check(found, tokens, parts, *(numbers | changed).values())


@needs_triton
def test_opcheck_accepts_the_registration():
    tokens, parts, *rest = given(64, 1, 2, 3)
    norms = [list(part[:5]) for part in parts]
    torch.library.opcheck(torch.ops.patchword.separable_filters.default, (tokens, *norms, *rest))
    pairs = [[part.matrix, part.bias] for part in parts]
    torch.library.opcheck(torch.ops.patchword.separable_products.default, (torch.stack([tokens] * 3), *pairs))


@needs_triton
def test_self_test_rejects_a_wrong_kernel(monkeypatch):
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
    assert kernel.matches_reference(DEVICE, dtype)
    original = kernel.separable_qkv
    monkeypatch.setattr(kernel, "separable_qkv", lambda tokens, parts, *rest: original(tokens, parts[::-1], *rest))
    assert not kernel.matches_reference(DEVICE, dtype)


@pytest.mark.parametrize(("width", "known"), [(64, True), (512, True), (32, True), (80, False), (768, True)])
def test_which_widths_are_known(width, known):
    assert is_known(width) == known


def empty(device, dtype=torch.bfloat16, width=64, needs_grad=False):
    sizes = (width, 1, 3, 3), *[(width,)] * 4, (width, width), (width,)
    return [
        SeparableWeights(*(torch.zeros(size, dtype=dtype, device=device).requires_grad_(needs_grad) for size in sizes))
    ] * 3


@pytest.mark.parametrize(
    ("dtype", "needs_grad", "casts", "width", "taken"),
    [
        (torch.bfloat16, False, False, 64, True),
        (torch.float16, False, False, 256, True),
        (torch.float32, False, False, 64, False),
        (torch.float32, False, True, 64, True),
        (torch.bfloat16, True, False, 64, False),
        (torch.bfloat16, False, False, 80, False),
    ],
    ids=["bfloat16", "float16", "float32", "autocast", "gradients", "80 channels"],
)
def test_when_it_is_chosen(hopper, dtype, needs_grad, casts, width, taken, monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: casts)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda kind: torch.bfloat16)
    parts, tokens = empty(hopper, dtype, width, needs_grad), torch.zeros(2, 6, width, dtype=dtype, device=hopper)
    assert has_separable_qkv_kernel(tokens, parts) == taken
    with torch.no_grad():
        assert has_separable_qkv_kernel(tokens, parts) == (taken or needs_grad)
    if taken:
        answer = kernel.separable_qkv(tokens, parts, 1e-5, 2, 3)
        assert [part.shape for part in answer] == [(2, 6, width)] * 3
        assert {part.dtype for part in answer} == {torch.bfloat16 if casts else dtype}
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
        assert not has_separable_qkv_kernel(tokens, parts)


def test_it_is_not_chosen_for_mixed_dtypes(hopper):
    one, two, three = empty(hopper)
    tokens = torch.zeros(2, 6, 64, dtype=torch.bfloat16, device=hopper)
    assert has_separable_qkv_kernel(tokens, [one, two, three])
    assert not has_separable_qkv_kernel(tokens, [one, two, three._replace(bias=three.bias.float())])


def test_it_is_not_chosen_on_a_cpu():
    with torch.no_grad():
        assert not has_separable_qkv_kernel(torch.zeros(1, 6, 64, dtype=torch.bfloat16), empty("cpu"))


# The rule

GRID, WIDTH = Grid(2, 3), 64


@pytest.fixture
def calls(monkeypatch):
    """Replaces the kernel by its reference on any machine, and records the calls."""
    seen = []

    def run(*called):
        seen.append(called)
        return list(separable_qkv_reference(*called).chunk(3, -1))

    monkeypatch.setattr(fused, "has_separable_qkv_kernel", lambda tokens, parts: True)
    monkeypatch.setattr(fused, "separable_qkv", run)
    return seen


def made(stride=1):
    part = randomise(SeparableProjection(WIDTH, stride)).eval()
    for step in (part.query, part.key, part.value):
        step.depthwise.norm.eps = 0.1
    return part


def test_a_projection_uses_the_kernel(calls):
    part, tokens, mask = made(), pixels(2, GRID.tokens, WIDTH), torch.ones(6, 6, dtype=torch.bool)
    found = fuse(part)(tokens, Scope(mask, grid=GRID))
    assert [call[2:] for call in calls] == [(0.1, 2, 3)]
    assert (found.mask is mask, found.key_grid) == (True, GRID)
    expected = part(tokens, Scope(mask, grid=GRID))
    assert len(calls) == 1
    exact = deepcopy(part).double()(tokens.double(), Scope(mask, grid=GRID))
    assert_as_exact(found[:3], expected[:3], exact[:3])


def test_fused_attention_computes_the_same(calls):
    patterns = [Pattern(Interlaced(2, None)), Pattern(Interlaced(None, 2))]
    attention = Attention(WIDTH, 4, projection=made(), patterns=patterns).eval()
    tokens, scope = pixels(2, 20, WIDTH), Scope(grid=Grid(4, 5))
    found = fuse(attention)(tokens, scope)
    assert len(calls) == 1
    assert_matches_module(found, attention, tokens, scope)


def _hooked(name):
    def make():
        part = made()
        part.get_submodule(name).register_forward_hook(lambda *_: None)
        return part

    return make


def _changed(name, new):
    def make():
        part = made()
        place, _, last = name.rpartition(".")
        setattr(part.get_submodule(place), last, new())
        return part

    return make


class _Own(SeparableLinear):
    pass


PARTS = "query", "key.depthwise", "value.depthwise.convolution", "query.depthwise.norm", "key.linear"
PLAIN = {
    "a norm in training": lambda: made().train(),
    "smaller keys": lambda: made(stride=2),
    "a norm without weights": _changed("key.depthwise.norm", lambda: nn.BatchNorm2d(WIDTH, affine=False).eval()),
    "a norm without means": _changed(
        "key.depthwise.norm", lambda: nn.BatchNorm2d(WIDTH, track_running_stats=False).eval()
    ),
    "another eps": _changed("value.depthwise.norm", lambda: nn.BatchNorm2d(WIDTH, 0.2).eval()),
    "no bias": _changed("query.linear", lambda: nn.Linear(WIDTH, WIDTH, bias=False)),
    "a biased filter": _changed(
        "query.depthwise.convolution", lambda: nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH)
    ),
    "a subclass": _changed("key", lambda: _Own(WIDTH, 1).eval()),
    **{f"{name} has a hook": _hooked(name) for name in PARTS},
}


@pytest.mark.parametrize("case", PLAIN)
def test_unsupported_modules_are_not_fused(calls, case):
    assert fuse(PLAIN[case]())(pixels(2, GRID.tokens, WIDTH), Scope(grid=GRID)).qkv is None
    assert not calls


def test_maps_with_prefix_tokens_are_not_fused(calls):
    grid = Grid(2, 3, prefix=1)
    fuse(made())(pixels(2, grid.tokens, WIDTH), Scope(grid=grid))
    assert not calls


@needs_triton
def test_a_compiled_projection_calls_two_operations(monkeypatch):
    monkeypatch.setattr(fused, "has_separable_qkv_kernel", lambda tokens, parts: True)
    part, tokens = made().to(DEVICE).half(), pixels(2, GRID.tokens, WIDTH).to(DEVICE).half()
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    with torch.no_grad():
        found = torch.compile(fuse(part), backend=backend, fullgraph=True)(tokens, Scope(grid=GRID))
        exact = deepcopy(part).double()(tokens.double(), Scope(grid=GRID))
    assert {"patchword.separable_filters", "patchword.separable_products"} <= set(seen)
    assert_rounded(found[:3], exact[:3], roundings=2)
