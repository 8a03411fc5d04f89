"""The linear_gelu kernel matches its reference, on a GPU or in Triton's interpreter."""

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from patchword.core.scope import Scope
from patchword.fusion import mlp as fused
from patchword.fusion.rules import fuse
from patchword.kernels.mlp import linear_gelu as kernel
from patchword.kernels.mlp.linear_gelu import has_linear_gelu_kernel
from patchword.kernels.mlp.reference import FORMS, linear_gelu_reference
from patchword.layers import FeedForward, QuickGelu
from support.kernel_tests import DEVICE, assert_as_exact, assert_matches_module, error, needs_triton


def given(rows, width=256, hidden=128, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rows)

    def normal(*shape, by=1.0):
        return (torch.randn(*shape, generator=generator) * by).to(DEVICE, dtype)

    return normal(rows, width), normal(hidden, width, by=width**-0.5), normal(hidden)


def exactly(tokens, up, bias, form):
    return linear_gelu_reference(tokens.double(), up.double(), bias.double(), form)


def check(found, *given):
    """The kernel is about as exact as the reference in the same dtype."""
    expected = linear_gelu_reference(*given)
    assert found.shape == expected.shape
    assert_as_exact([found], [expected], [exactly(*given)])


@needs_triton
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "width", "hidden"), [(1, 256, 128), (130, 320, 256), (128, 384, 128)])
def test_kernel_matches_reference(rows, width, hidden, form):
    parts = given(rows, width, hidden)
    found = torch.ops.patchword.linear_gelu(*parts, form)
    assert found.shape == (rows, hidden)
    check(found, *parts, form)
    assert error(found, exactly(*parts, FORMS[FORMS.index(form) - 1])) > 1e-5  # another form of GELU differs


@needs_triton
def test_leading_axes_strides_and_empty_input():
    tokens, up, bias = given(6)
    turned = tokens.view(2, 3, 256).transpose(0, 1)
    found = torch.ops.patchword.linear_gelu(turned, up.t().contiguous().t(), bias, "gelu")
    assert found.shape == (3, 2, 128)
    check(found, turned, up, bias, "gelu")
    assert torch.ops.patchword.linear_gelu(tokens[:0], up, bias, "gelu").shape == (0, 128)


@needs_triton
def test_self_test_rejects_a_wrong_kernel(monkeypatch):
    assert kernel.matches_reference(DEVICE, torch.float32)
    original = kernel.linear_gelu
    monkeypatch.setattr(kernel, "linear_gelu", lambda tokens, *parts: original(1.1 * tokens, *parts))
    assert not kernel.matches_reference(DEVICE, torch.float32)


@pytest.mark.parametrize(
    ("dtype", "needs_grad", "width", "hidden", "taken"),
    [
        (torch.bfloat16, False, 384, 1536, True),
        (torch.float16, False, 256, 128, True),
        (torch.bfloat16, True, 384, 1536, False),
        (torch.float32, False, 384, 1536, False),
        (torch.bfloat16, False, 512, 2048, False),
        (torch.bfloat16, False, 768, 3072, False),
        (torch.bfloat16, False, 192, 768, False),
        (torch.bfloat16, False, 384, 1500, False),
    ],
)
def test_when_it_is_chosen(monkeypatch, dtype, needs_grad, width, hidden, taken):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(kernel.SELF_TEST, "found", {0: True})
    with FakeTensorMode(allow_non_fake_inputs=True):
        tokens = torch.empty(4, width, dtype=dtype, device="cuda:0")
        up, bias = torch.empty(hidden, width, dtype=dtype, device="cuda:0"), torch.empty(hidden, device="cuda:0")
        assert has_linear_gelu_kernel(tokens, up.requires_grad_(needs_grad), bias) == taken
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
        assert not has_linear_gelu_kernel(tokens, up, bias)


@pytest.fixture
def calls(monkeypatch):
    """Replaces the kernel by its reference on any machine, and records the calls."""
    found = []

    def run(*parts):
        found.append(parts)
        return linear_gelu_reference(*parts)

    monkeypatch.setattr(fused, "has_linear_gelu_kernel", lambda *parts: True)
    monkeypatch.setattr(fused, "linear_gelu", run)
    return found


@pytest.mark.parametrize("activation", [None, nn.GELU("tanh"), QuickGelu()])
def test_a_feed_forward_uses_the_kernel(calls, activation):
    torch.manual_seed(0)
    part, tokens = FeedForward(8, 16, activation), torch.randn(2, 3, 8)
    found = fuse(part)(tokens, Scope())
    assert len(calls) == 1
    assert_matches_module(found, nn.Sequential(part.up, part.activation, part.down), tokens)


def test_it_is_not_used_with_hooks_or_other_activations(calls):
    tokens = torch.randn(2, 3, 8)
    fuse(FeedForward(8, 16, nn.ReLU()))(tokens, Scope())
    watched = FeedForward(8, 16)
    seen = []
    watched.up.register_forward_hook(lambda *given: seen.append(given))
    fuse(watched)(tokens, Scope())
    assert len(seen) == 1
    assert not calls
