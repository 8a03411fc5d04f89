import pytest
import torch
from torch import nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import Block, DropPath, Encoder, FeedForward, LayerScale, Norm, Residual
from support.helpers import pixels, randomise

SCOPE = Scope(grid=Grid(2, 3))


class Affine(nn.Module):
    """A sublayer that does not commute with another, and remembers its scope."""

    def __init__(self, factor: float, shift: float) -> None:
        super().__init__()
        self.factor, self.shift = factor, shift

    def forward(self, tokens, scope):
        self.scope = scope
        return self.factor * tokens + self.shift


def residual(factor: float, shift: float) -> Residual:
    return Residual(Affine(factor, shift), nn.Identity())


FORMULAS = {
    Norm.PRE: lambda x, f, norm: x + f(norm(x)),
    Norm.POST: lambda x, f, norm: norm(x + f(x)),
    Norm.BRANCH: lambda x, f, norm: x + norm(f(x)),
}


@pytest.mark.parametrize("where", Norm)
def test_where_the_norm_stands(where):
    norm, sublayer, tokens = randomise(nn.LayerNorm(8)), randomise(FeedForward(8, 16)), pixels(2, 6, 8)
    expected = FORMULAS[where](tokens, lambda x: sublayer(x, SCOPE), norm)
    torch.testing.assert_close(Residual(sublayer, norm, where)(tokens, SCOPE), expected)


@pytest.mark.parametrize("where", Norm)
def test_layer_scale_is_on_the_branch_only(where):
    tokens, norm = pixels(2, 6, 8), nn.LayerNorm(8)
    silent = Residual(Affine(2, 1), norm, where, scale=LayerScale(8, 0.0))
    torch.testing.assert_close(silent(tokens, SCOPE), norm(tokens) if where is Norm.POST else tokens)
    halved = Residual(Affine(2, 1), nn.Identity(), where, scale=LayerScale(8, 0.5))
    torch.testing.assert_close(halved(tokens, SCOPE), tokens + 0.5 * (2 * tokens + 1))


def test_layer_scale_has_a_factor_for_each_channel():
    scale = LayerScale(3, 1e-5)
    assert scale.factor.tolist() == pytest.approx([1e-5] * 3)
    nn.init.constant_(scale.factor[1:], 2.0)
    torch.testing.assert_close(scale(torch.ones(1, 1, 3))[0, 0, 1:], torch.tensor([2.0, 2.0]))


def test_dropout_and_drop_path_leave_the_skip_alone():
    tokens = pixels(200, 6, 8)
    for options in ({"dropout": 0.5}, {"drop_path": 0.5}):
        part = Residual(Affine(0, 1), nn.Identity(), **options)
        branch = part(tokens, SCOPE) - tokens
        assert set(branch.round(decimals=4).unique().tolist()) == {0.0, 2.0}
        torch.testing.assert_close(part.eval()(tokens, SCOPE), tokens + 1)


def test_drop_path_drops_whole_samples_and_keeps_the_mean():
    dropped = DropPath(0.25)(torch.ones(4000, 3, 5))
    assert torch.equal(dropped.amax((1, 2)), dropped.amin((1, 2)))
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float(dropped.mean()) == pytest.approx(1, abs=0.04)  # five standard deviations


def test_drop_path_is_the_identity_in_evaluation_and_at_rate_zero():
    tokens = pixels(8, 3, 5)
    assert DropPath(0.5).eval()(tokens) is tokens
    assert DropPath(0.0)(tokens) is tokens


@pytest.mark.parametrize("rate", [1.0, -0.1])
def test_a_rate_that_would_leave_nothing_to_scale_is_refused(rate):
    with pytest.raises(UserError, match="less than 1"):
        DropPath(rate)


def test_a_block_runs_its_residuals_in_order():
    block, tokens = Block(first=residual(1, 0), second=residual(0, 5), third=residual(2, 0)), torch.ones(1, 2, 3)
    assert [name for name, _ in block.named_children()] == ["first", "second", "third"]
    assert torch.equal(block(tokens, SCOPE), torch.full_like(tokens, (1 * 2 + 5) * 3))
    assert all(part.sublayer.scope is SCOPE for part in block.children())


def test_an_encoder_runs_its_blocks_once_each_in_order():
    encoder = Encoder([Block(part=residual(1, 0)), Block(part=residual(0, 5))])
    assert encoder.order == (0, 1)
    assert encoder(torch.ones(1), SCOPE).item() == 1 * 2 + 5


def test_an_encoder_may_run_a_shared_block_again():
    encoder = Encoder([Block(part=residual(1, 0)), Block(part=residual(0, 5))], order=(1, 0, 0, 1))
    assert encoder(torch.ones(1), SCOPE).item() == (1 + 5) * 2 * 2 + 5
    shared = Encoder([Block(part=Residual(FeedForward(4, 8), nn.LayerNorm(4)))], order=[0] * 12)
    assert sum(parameter.numel() for parameter in shared.parameters()) == 4 * 8 + 8 + 8 * 4 + 4 + 2 * 4


def test_feed_forward_treats_each_token_alone():
    part, tokens = randomise(FeedForward(8, 16, nn.ReLU())), pixels(2, 6, 8)
    expected = (tokens @ part.up.weight.T + part.up.bias).clamp(min=0) @ part.down.weight.T + part.down.bias
    torch.testing.assert_close(part(tokens, SCOPE), expected)


def test_feed_forward_drops_what_is_between_its_maps():
    part = randomise(FeedForward(8, 16, dropout=1.0))
    assert torch.equal(part(pixels(2, 6, 8), SCOPE), part.down.bias.expand(2, 6, 8))
