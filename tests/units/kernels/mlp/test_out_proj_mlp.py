"""A feed-forward joined with the output projection before it. Its kernel is tested in test_fused_mlp_warp_specialized;
here the rule takes the reference in its place, on any machine."""

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
from support.helpers import difference, pixels, randomise


@pytest.fixture
def calls(monkeypatch):
    """Whatever the machine, there is a kernel, which tells how it was called."""
    seen = []

    def told(*given):
        seen.append(given)
        return out_proj_mlp_reference(*given)

    monkeypatch.setattr(fused, "has_out_proj_mlp_kernel", lambda *given: not torch.is_grad_enabled())
    monkeypatch.setattr(fused, "out_proj_mlp", told)
    return seen


def block(**choices):
    attention = Attention(32, 4, patterns=[Pattern(Windows(2, 2))])
    return randomise(pre_norm_block(32, attention, FeedForward(32, 64), eps=1e-3, **choices)).eval()


SCOPE = Scope(grid=Grid(4, 6))


def test_a_block_is_the_same_with_it(calls):
    part, tokens = block(), pixels(2, 24, 32)
    expected = fuse(part)(tokens, SCOPE)
    assert not calls
    with torch.no_grad():
        found = fuse(part)(tokens, SCOPE)
    assert torch.equal(expected, part(tokens, SCOPE))
    (_, out_proj_mlp, _, eps, form), *others = calls
    assert (eps, form, others) == (1e-3, "gelu", [])
    assert out_proj_mlp.matrix is part.attention.sublayer.output.weight
    assert difference(found, expected) < 1e-5


@torch.no_grad()
@pytest.mark.parametrize(
    "watched",
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
def test_it_is_left_alone_where_someone_watches(calls, watched):
    part, tokens, seen = block(), pixels(2, 24, 32), []
    expected = fuse(part)(tokens, SCOPE)
    assert len(calls) == 1
    part.get_submodule(watched).register_forward_hook(lambda *given: seen.append(1))
    assert difference(fuse(part)(tokens, SCOPE), expected) < 1e-5
    assert (len(calls), len(seen)) == (1, 1)


def test_no_gradient_is_lost(calls, monkeypatch):
    """where the branch alone learns, of which nobody knows before it is there"""
    monkeypatch.setattr(
        fused, "has_out_proj_mlp_kernel", lambda tokens, *read: not needs_grad(tokens, *read[:2], *read[2])
    )
    part, tokens = block(), pixels(2, 24, 32)
    for parameter in part.parameters():
        parameter.requires_grad_(False)
    weight = part.attention.sublayer.projection.joint.weight.requires_grad_()
    (found,) = torch.autograd.grad(fuse(part)(tokens, SCOPE).sum(), weight)
    assert not calls
    monkeypatch.setattr(fused, "has_out_proj_mlp_kernel", lambda *given: False)
    (expected,) = torch.autograd.grad(part(tokens, SCOPE).sum(), weight)
    assert expected.abs().max() > 0
    assert difference(found, expected) < 1e-4 * float(expected.abs().max())


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
    expected = fuse(part)(tokens, SCOPE)
    outer = Wrapper(getattr(part, wrapped))
    setattr(part, wrapped, outer)
    assert difference(fuse(part)(tokens, SCOPE), expected) < 1e-5
    assert (len(outer.calls), len(calls)) == (1, 1)


@torch.no_grad()
def test_what_stands_between_keeps_them_apart(calls):
    part, tokens = block(), pixels(2, 24, 32)
    part.attention.scale = LayerScale(32, 0.5)
    halved = fuse(part)(tokens, SCOPE)
    part.attention.sublayer.output = nn.Linear(32, 32, bias=False)
    fuse(part)(tokens, SCOPE)
    part.attention.scale = nn.Identity()
    fuse(part)(tokens, SCOPE)
    assert not calls
    assert halved.shape == tokens.shape


def test_a_compiled_block_keeps_it_whole(monkeypatch):
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
def test_whole_models_are_the_same_with_it(calls, name):
    model, images = randomise(REGISTRY.create(name, **SMALL, **MODELS[name])).eval(), pixels(2, 3, 56, 56)
    expected = model(images)
    fuse(model)(images)
    assert not calls
    with torch.no_grad():
        found = fuse(model)(images)
    assert len(calls) == 3  # once in each block
    assert difference(found, expected) < 1e-4 * float(expected.detach().abs().max())
