"""The fusion rule for the output projection and the MLP after it.

test_fused_mlp_warp_specialized tests the kernel. Here the rule uses the reference instead, on any machine.
"""

from copy import deepcopy

import pytest
import torch
from torch import nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.fusion import mlp as fused
from patchword.fusion.rules import fuse
from patchword.kernels.common.availability import needs_grad
from patchword.kernels.mlp.reference import out_proj_mlp_reference
from patchword.layers import Attention, FeedForward, LayerScale, Pattern, Windows, pre_norm_block
from patchword.models import REGISTRY
from support.helpers import pixels, randomise
from support.kernel_tests import assert_as_exact, assert_matches_module


@pytest.fixture
def calls(monkeypatch):
    """Replaces the kernel by its reference on any machine, and records the calls."""
    seen = []

    def run(*given):
        seen.append(given)
        return out_proj_mlp_reference(*given)

    monkeypatch.setattr(fused, "has_out_proj_mlp_kernel", lambda *given: not torch.is_grad_enabled())
    monkeypatch.setattr(fused, "out_proj_mlp", run)
    return seen


def block(**choices):
    attention = Attention(32, 4, patterns=[Pattern(Windows(2, 2))])
    return randomise(pre_norm_block(32, attention, FeedForward(32, 64), eps=1e-3, **choices)).eval()


SCOPE = Scope(grid=Grid(4, 6))


def test_a_fused_block_computes_the_same(calls):
    part, tokens = block(), pixels(2, 24, 32)
    expected = fuse(part)(tokens, SCOPE)
    assert not calls
    with torch.no_grad():
        found = fuse(part)(tokens, SCOPE)
    assert torch.equal(expected, part(tokens, SCOPE))
    (_, out_proj_mlp, _, eps, form), *others = calls
    assert (eps, form, others) == (1e-3, "gelu", [])
    assert out_proj_mlp.matrix is part.attention.sublayer.output.weight
    assert_matches_module(found, part, tokens, SCOPE)


@torch.no_grad()
@pytest.mark.parametrize(
    "hooked",
    [
        "attention",
        "attention.sublayer",
        "attention.sublayer.output",
        "attention.dropout",
        "feed_forward",
        "feed_forward.norm",
        "feed_forward.sublayer.up",
        "feed_forward.drop_path",
    ],
)
def test_parts_with_hooks_are_not_fused(calls, hooked):
    part, tokens, seen = block(), pixels(2, 24, 32), []
    fuse(part)(tokens, SCOPE)
    assert len(calls) == 1
    part.get_submodule(hooked).register_forward_hook(lambda *given: seen.append(1))
    found = fuse(part)(tokens, SCOPE)
    assert (len(calls), len(seen)) == (1, 1)
    assert_matches_module(found, part, tokens, SCOPE)


def test_no_gradient_is_lost(calls, monkeypatch):
    """If only the attention needs a gradient, the kernel is not used."""
    monkeypatch.setattr(
        fused, "has_out_proj_mlp_kernel", lambda tokens, *read: not needs_grad(tokens, *read[:2], *read[2])
    )
    part, tokens = block(), pixels(2, 24, 32)
    for parameter in part.parameters():
        parameter.requires_grad_(False)
    part.attention.sublayer.projection.joint.weight.requires_grad_()

    def gradient(part, fused, tokens):
        weight = part.attention.sublayer.projection.joint.weight
        return torch.autograd.grad(fused(tokens, SCOPE).sum(), weight)

    found = gradient(part, fuse(part), tokens)
    assert not calls
    monkeypatch.setattr(fused, "has_out_proj_mlp_kernel", lambda *given: False)
    expected, wide = gradient(part, part, tokens), deepcopy(part).double()
    assert expected[0].abs().max() > 0
    assert_as_exact(found, expected, gradient(wide, wide, tokens.double()))


class Wrapper(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.calls = inner, []

    def forward(self, tokens, scope):
        self.calls.append(1)
        return self.inner(tokens, scope)


@torch.no_grad()
@pytest.mark.parametrize("wrapped", ["attention", "feed_forward"])
def test_a_wrapped_residual_is_called(calls, wrapped):
    part, tokens = block(), pixels(2, 24, 32)
    plain = deepcopy(part)
    fuse(part)(tokens, SCOPE)
    outer = Wrapper(getattr(part, wrapped))
    setattr(part, wrapped, outer)
    found = fuse(part)(tokens, SCOPE)
    assert (len(outer.calls), len(calls)) == (1, 1)
    assert_matches_module(found, plain, tokens, SCOPE)


@torch.no_grad()
def test_a_layer_scale_or_a_missing_bias_prevents_fusion(calls):
    part, tokens = block(), pixels(2, 24, 32)
    part.attention.scale = LayerScale(32, 0.5)
    halved = fuse(part)(tokens, SCOPE)
    part.attention.sublayer.output = nn.Linear(32, 32, bias=False)
    fuse(part)(tokens, SCOPE)
    part.attention.scale = nn.Identity()
    fuse(part)(tokens, SCOPE)
    assert not calls
    assert halved.shape == tokens.shape


def test_a_compiled_block_calls_it_as_one_operation(monkeypatch):
    monkeypatch.setattr(fused, "has_out_proj_mlp_kernel", lambda *given: True)
    part, tokens, seen = block(), pixels(2, 24, 32), []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return lambda *given: (tokens,)  # without a GPU of that kind the kernel cannot run

    with torch.no_grad():
        torch.compile(fuse(part), backend=backend, fullgraph=True)(tokens, SCOPE)
    assert seen.count("patchword.out_proj_mlp") == 1


SMALL = {"image": 56, "width": 16, "classes": 5}
MODELS = {
    "swin-tiny": {"depths": (2, 1), "heads": (2, 4)},
    "cswin-tiny": {"depths": (1, 2), "heads": (2, 4), "stripes": (2, 7)},
    "pale-tiny": {"depths": (1, 2), "heads": (2, 4), "pales": (7, 7)},
}


@pytest.mark.parametrize("name", MODELS)
def test_fused_models_compute_the_same(calls, name):
    model, images = randomise(REGISTRY.create(name, **SMALL, **MODELS[name])).eval(), pixels(2, 3, 56, 56)
    fuse(model)(images)
    assert not calls
    with torch.no_grad():
        found = fuse(model)(images)
    assert len(calls) == 3  # once in each block
    assert_matches_module(found, model, images)
