"""Layers that convolve a map channel by channel take the kernel where they can, and compute the same."""

import pytest
import torch
from torch import nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.fusion import convolution as fused
from patchword.fusion.rules import fuse
from patchword.kernels.depthwise_conv import operation
from patchword.layers import ConditionalPosition, ConvNorm, LayerScale, Residual, SeparableProjection
from support.helpers import difference, pixels, randomise
from support.kernel_tests import DEVICE, farthest

GRID, WIDTH = Grid(2, 3), 16
SCOPE = Scope(grid=GRID)


@pytest.fixture
def taken(monkeypatch):
    """The kernel is taken on this device, too; the calls are counted."""
    pytest.importorskip("triton")
    calls = []
    original = operation.depthwise_conv
    for module in (operation, fused):
        monkeypatch.setattr(module, "has_depthwise_conv_kernel", lambda tokens: True)
        monkeypatch.setattr(module, "depthwise_conv", lambda *given: calls.append(given) or original(*given))
    return calls


def plainly(monkeypatch):
    for module in (operation, fused):
        monkeypatch.setattr(module, "has_depthwise_conv_kernel", lambda tokens: False)


def differentiated(part, grid=GRID):
    tokens = pixels(2, grid.tokens, WIDTH).to(DEVICE).requires_grad_()
    answer = part(tokens, Scope(grid=grid))
    answers = [answer] if isinstance(answer, torch.Tensor) else list(answer[:3])
    total = sum(each.sin().sum() for each in answers)
    return [*answers, *torch.autograd.grad(total, [tokens, *part.parameters()])]


def separable(stride=1):
    return randomise(SeparableProjection(WIDTH, stride)).to(DEVICE)


def test_conditional_positions(taken, monkeypatch):
    part = randomise(ConditionalPosition(WIDTH)).to(DEVICE)
    found = differentiated(part)
    assert len(taken) == 1
    plainly(monkeypatch)
    assert farthest(found, differentiated(part)) < 1e-5
    assert len(taken) == 1


@pytest.mark.parametrize("training", [False, True], ids=["evaluating", "training"])
def test_separable_projections(training, taken, monkeypatch):
    part = separable().train(training)
    kept = {name: value.clone() for name, value in part.state_dict().items()}
    found, learned = differentiated(part), {name: value.clone() for name, value in part.state_dict().items()}
    assert len(taken) == 3
    part.load_state_dict(kept)
    plainly(monkeypatch)
    assert farthest(found, differentiated(part)) < 1e-5
    assert len(taken) == 3
    for name, value in part.state_dict().items():  # the norms have the same running statistics
        torch.testing.assert_close(learned[name], value)


def test_fused_separable_projections_fold_their_norms(taken, monkeypatch):
    part = separable().eval()
    found = differentiated(fuse(part))
    assert [call[1].dtype for call in taken] == [torch.float32] * 3
    assert all(call[2] is not None for call in taken)  # the norm's shift is the bias
    plainly(monkeypatch)
    assert farthest(found, differentiated(part)) < 1e-5
    assert len(taken) == 3


def test_a_norm_that_trains_is_not_folded(taken):
    differentiated(fuse(separable().train()))
    assert [call[2] for call in taken] == [None] * 3


def test_a_map_whose_channels_are_not_last_is_left_to_torch(taken):
    part, images = fuse(randomise(ConvNorm(8, 8, 3, groups=8)).to(DEVICE).eval()), pixels(2, 8, 5, 6).to(DEVICE)
    expected = part.original(images)
    assert difference(part(images), expected) < 1e-6
    assert not taken
    assert difference(part(images.to(memory_format=torch.channels_last)), expected) < 1e-5
    assert len(taken) == 1


@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("affine", [False, True], ids=["no weights", "weights"])
def test_a_folded_norm_is_the_convolution_and_the_norm(biased, affine):
    convolution = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=biased).double()
    norm = randomise(nn.BatchNorm2d(8, affine=affine, eps=0.1)).double().eval()
    norm.running_mean, norm.running_var = norm.running_mean + 1, norm.running_var + torch.arange(8) / 4
    images = pixels(2, 8, 5, 4).double()
    expected = norm(convolution(images))
    weight, bias = fused.folded(convolution, norm)
    found = nn.functional.conv2d(images, weight.double(), bias.double(), padding=1, groups=8)
    assert difference(found, expected) < 1e-5
    norm.eps = 0.2
    assert difference(norm(convolution(images)), found) > 1e-3


def test_a_folded_norm_of_16_bits_is_computed_in_32():
    part = randomise(ConvNorm(8, 8, 3, groups=8)).to(torch.bfloat16)
    assert {each.dtype for each in fused.folded(part.convolution, part.norm)} == {torch.float32}


class Other(nn.Conv2d):
    pass


def test_hooks_are_called_and_another_class_takes_its_own_way(taken):
    tokens = pixels(2, GRID.tokens, WIDTH).to(DEVICE)
    for name in ("depthwise", "depthwise.convolution", "depthwise.norm"):
        seen, part = [], separable().eval()
        part.query.get_submodule(name).register_forward_hook(lambda *given, seen=seen: seen.append(given))
        part(tokens, SCOPE)
        assert (len(seen), len(taken)) == (1, 3), name
        taken.clear()
        fuse(part)(tokens, SCOPE)
        assert (len(seen), [call[2] is None for call in taken]) == (2, [True, False, False]), name  # not folded
        taken.clear()
    part = randomise(ConditionalPosition(WIDTH)).to(DEVICE)
    part.convolution = Other(WIDTH, WIDTH, 3, padding=1, groups=WIDTH).to(DEVICE)
    part(tokens, SCOPE)
    separable(stride=2).eval()(tokens, SCOPE)
    assert len(taken) == 1  # queries are not reduced


@pytest.mark.parametrize(("kernel", "stride", "groups"), [(5, 1, WIDTH), (3, 2, WIDTH), (3, 1, 1)])
def test_another_convolution_is_not_known(kernel, stride, groups, taken):
    images = pixels(1, WIDTH, 4, 6).to(DEVICE, memory_format=torch.channels_last)
    part = ConvNorm(WIDTH, WIDTH, kernel, stride, groups).to(DEVICE).eval()
    part(images)
    fuse(part)(images)
    assert not taken
    ConvNorm(WIDTH, WIDTH, 3, 1, WIDTH).to(DEVICE)(images)
    assert len(taken) == 1


def test_prefix_tokens_are_no_part_of_the_map(taken):
    grid = Grid(2, 3, prefix=1)
    differentiated(randomise(ConditionalPosition(WIDTH)).to(DEVICE), grid)
    differentiated(separable(), grid)
    differentiated(fuse(separable()), grid)
    assert not taken


# Conditional positions and the sum behind them

LARGE = Grid(5, 7)


def positioned(norm=None, **options):
    part = Residual(ConditionalPosition(WIDTH), norm or nn.Identity(), **options)
    return randomise(part).to(DEVICE).half().requires_grad_(False).eval()


def halves(grid=LARGE):
    return pixels(2, grid.tokens, WIDTH).to(DEVICE).half()


def test_the_sum_is_part_of_the_filter(taken, monkeypatch):
    part, tokens = positioned(dropout=0.1, drop_path=0.1), halves()
    found = fuse(part)(tokens, Scope(grid=LARGE))
    assert [call[-1] for call in taken] == [torch.float16]
    assert taken[0][1].dtype == torch.float32
    plainly(monkeypatch)
    exact = part.float()(tokens.float(), Scope(grid=LARGE))
    assert found.dtype == torch.float16
    assert difference(found.float(), exact) < 2e-3 * float(exact.abs().max())
    assert len(taken) == 1


def test_under_autocast_the_tokens_keep_their_kind(taken, monkeypatch):
    monkeypatch.setattr(fused, "short_dtype", lambda *given: torch.float16)
    part, tokens = positioned().float(), pixels(2, LARGE.tokens, WIDTH).to(DEVICE)
    found = fuse(part)(tokens, Scope(grid=LARGE))
    assert [call[-1] for call in taken] == [torch.float32]
    plainly(monkeypatch)
    assert difference(found, part(tokens, Scope(grid=LARGE))) < 1e-5


class _Positions(ConditionalPosition):
    pass


def _hooked(name):
    part = positioned()
    part.get_submodule(name).register_forward_hook(lambda *_: None)
    return part


APART = {
    "a gradient is wanted": lambda: positioned().requires_grad_(),
    "32 bits": lambda: positioned().float(),
    "a scaled branch": lambda: positioned(scale=LayerScale(WIDTH)),
    "dropped paths": lambda: positioned(drop_path=0.1).train(),
    "a norm": lambda: positioned(nn.LayerNorm(WIDTH)),
    "a class of its own": lambda: Residual(_Positions(WIDTH), nn.Identity()).to(DEVICE).half().requires_grad_(False),
    **{f"{name} has hooks": lambda name=name: _hooked(name) for name in ("sublayer", "sublayer.convolution", "norm")},
}


@pytest.mark.parametrize("kind", APART)
def test_the_sum_stands_apart(kind, monkeypatch):
    asked = []
    for module in (operation, fused):
        monkeypatch.setattr(module, "has_depthwise_conv_kernel", lambda tokens: True)
        monkeypatch.setattr(module, "depthwise_conv", lambda *given: asked.append(given) or given[0])
    part = APART[kind]()
    fuse(part)(halves().to(next(part.parameters()).dtype), Scope(grid=LARGE))
    assert all(len(given) == 5 for given in asked)  # the residual sum would ask for a dtype of the output
