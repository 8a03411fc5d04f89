"""Layers that convolve a map channel by channel take the kernel where they can, and compute the same."""

import pytest
import torch
from torch import nn

from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import ConditionalPosition, ConvNorm, LayerScale, Residual, SeparableProjection
from patchword.layers.convolution import depthwise
from support.helpers import difference, pixels, randomise
from support.kernel_tests import DEVICE, farthest

GRID, WIDTH = Grid(2, 3), 16
SCOPE = Scope(grid=GRID)


@pytest.fixture
def taken(monkeypatch):
    """The layers take the kernel on this device, too; the calls are counted."""
    pytest.importorskip("triton")
    calls = []
    original = depthwise.depthwise_conv
    monkeypatch.setattr(depthwise, "has_depthwise_conv_kernel", lambda tokens: True)
    monkeypatch.setattr(depthwise, "depthwise_conv", lambda *given: calls.append(given) or original(*given))
    return calls


def plainly(monkeypatch):
    monkeypatch.setattr(depthwise, "has_depthwise_conv_kernel", lambda tokens: False)


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
    for name, value in part.state_dict().items():  # the norms have learned the same
        torch.testing.assert_close(learned[name], value)


@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("affine", [False, True], ids=["no weights", "weights"])
def test_a_folded_norm_is_the_convolution_and_the_norm(biased, affine):
    convolution = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=biased).double()
    norm = randomise(nn.BatchNorm2d(8, affine=affine, eps=0.1)).double().eval()
    norm.running_mean, norm.running_var = norm.running_mean + 1, norm.running_var + torch.arange(8) / 4
    images = pixels(2, 8, 5, 4).double()
    expected = norm(convolution(images))
    weight, bias = depthwise.folded(convolution, norm)
    found = nn.functional.conv2d(images, weight.double(), bias.double(), padding=1, groups=8)
    assert difference(found, expected) < 1e-5
    norm.eps = 0.2
    assert difference(norm(convolution(images)), found) > 1e-3


def test_a_folded_norm_of_16_bits_is_computed_in_32():
    part = randomise(ConvNorm(8, 8, 3, groups=8)).to(torch.bfloat16)
    assert {each.dtype for each in depthwise.folded(part.convolution, part.norm)} == {torch.float32}


class Other(nn.Conv2d):
    pass


def test_where_parts_are_watched_or_others_the_plain_way_is_taken(taken):
    tokens = pixels(2, GRID.tokens, WIDTH).to(DEVICE)
    for name in ("depthwise", "depthwise.convolution", "depthwise.norm"):
        seen, part = [], separable().eval()
        part.query.get_submodule(name).register_forward_hook(lambda *given, seen=seen: seen.append(given))
        part(tokens, SCOPE)
        assert (len(seen), len(taken)) == (1, 2), name
        taken.clear()
    part = randomise(ConditionalPosition(WIDTH)).to(DEVICE)
    part.convolution = Other(WIDTH, WIDTH, 3, padding=1, groups=WIDTH).to(DEVICE)
    part(tokens, SCOPE)
    separable(stride=2).eval()(tokens, SCOPE)
    assert len(taken) == 1  # queries are not reduced


@pytest.mark.parametrize(
    "changed", [{"padding_mode": "circular"}, {"dilation": 2, "padding": 2}, {"kernel_size": 5, "padding": 2}]
)
def test_another_convolution_is_not_known(changed, taken):
    given = {"kernel_size": 3, "padding": 1, "groups": WIDTH} | changed
    tokens = pixels(1, GRID.tokens, WIDTH).to(DEVICE)
    assert depthwise.convolved(tokens, GRID, nn.Conv2d(WIDTH, WIDTH, **given).to(DEVICE)) is None
    given = {"kernel_size": 3, "padding": 1, "groups": WIDTH}
    assert depthwise.convolved(tokens, GRID, nn.Conv2d(WIDTH, WIDTH, **given).to(DEVICE)) is not None


def test_leading_tokens_are_no_part_of_the_map(taken):
    grid = Grid(2, 3, prefix=1)
    differentiated(randomise(ConditionalPosition(WIDTH)).to(DEVICE), grid)
    differentiated(separable(), grid)
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
    found = part(tokens, Scope(grid=LARGE))
    assert [call[-1] for call in taken] == [torch.float16]
    assert taken[0][1].dtype == torch.float32
    plainly(monkeypatch)
    exact = part.float()(tokens.float(), Scope(grid=LARGE))
    assert found.dtype == torch.float16
    assert difference(found.float(), exact) < 2e-3 * float(exact.abs().max())
    assert len(taken) == 1


def test_under_autocast_the_tokens_keep_their_kind(taken, monkeypatch):
    monkeypatch.setattr(depthwise, "short_dtype", lambda *given: torch.float16)
    part, tokens = positioned().float(), pixels(2, LARGE.tokens, WIDTH).to(DEVICE)
    found = part(tokens, Scope(grid=LARGE))
    assert [call[-1] for call in taken] == [torch.float32]
    plainly(monkeypatch)
    assert difference(found, part(tokens, Scope(grid=LARGE))) < 1e-5


class _Positions(ConditionalPosition):
    pass


def _watched(name):
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
    **{f"{name} is watched": lambda name=name: _watched(name) for name in ("sublayer", "sublayer.convolution", "norm")},
}


@pytest.mark.parametrize("kind", APART)
def test_the_sum_stands_apart(kind, monkeypatch):
    asked = []
    monkeypatch.setattr(depthwise, "has_depthwise_conv_kernel", lambda tokens: True)
    monkeypatch.setattr(depthwise, "depthwise_conv", lambda *given: asked.append(given) or given[0])
    part = APART[kind]()
    part(halves().to(next(part.parameters()).dtype), Scope(grid=LARGE))
    assert all(len(given) == 5 for given in asked)  # no kind of its own is asked for
