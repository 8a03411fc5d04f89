"""Attention maps against numbers worked out by hand, then the same on whole models."""

import math

import pytest
import torch
from torch import Tensor, nn

from patchword.analysis.attention.geometry import Geometry
from patchword.analysis.attention.maps import class_attention, layers
from patchword.analysis.attention.rollout import rollout, rollout_rows
from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import Attention, Full, Pattern, Projected, record_attention
from support.helpers import assert_sharp, pixels, tiny


class Rows(Full):
    """A partition for these tests: every row of patches by itself."""

    def split(self, tokens: Tensor, grid: Grid) -> Tensor:
        return tokens.unflatten(1, (grid.height, grid.width)).flatten(0, 1)

    def merge(self, groups: Tensor, grid: Grid) -> Tensor:
        return groups.unflatten(0, (-1, grid.height)).flatten(1, 2)


class FirstTwo(nn.Module):
    """A projection for these tests: only the first two tokens are keys."""

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        return Projected(tokens, tokens[:, :2], tokens[:, :2], None, Grid(1, 2))


class Looker(nn.Module):
    """One attention over the pixels of a picture, behind `leading` tokens; runs `times` times."""

    def __init__(self, attention: Attention, leading: tuple[float, ...] = (), times: int = 1) -> None:
        super().__init__()
        self.attention, self.leading, self.times = attention, leading, times

    def forward(self, images: Tensor) -> Tensor:
        grid = Grid(images.shape[2], images.shape[3], len(self.leading))
        leading = torch.tensor(self.leading).view(1, -1, 1).expand(len(images), -1, images.shape[1])
        tokens = torch.cat([leading, images.flatten(2).transpose(1, 2)], dim=1)
        for _ in range(self.times):
            self.attention(tokens, Scope(grid=grid))
        return tokens


def attention_with(query: float, query_bias: float, key: float, **parts: object) -> Attention:
    """One channel and one head: queries are query * token + query_bias, keys are key * token."""
    attention = Attention(1, 1, **parts)
    with torch.no_grad():
        attention.projection.joint.weight.copy_(torch.tensor([[query], [key], [0.0]]))
        attention.projection.joint.bias.copy_(torch.tensor([query_bias, 0.0, 0.0]))
    return attention


def test_the_class_token_shares_its_look_as_worked_out_by_hand() -> None:
    # every query is 1 and the keys are logarithms, so the weights are 10, 1, 2, 3, 4, 5, 6 over their sum of 31
    picture = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).log().view(1, 1, 2, 3)
    (seen,) = class_attention(Looker(attention_with(0, 1, 1), leading=(math.log(10),)), picture)
    assert torch.allclose(seen, torch.tensor([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]) / 31)


def test_only_the_first_of_two_leading_tokens_is_read_and_neither_is_drawn() -> None:
    picture = torch.tensor([0.0, 1.0]).view(1, 1, 1, 2)
    (seen,) = class_attention(Looker(attention_with(1, 0, 1), leading=(1.0, -1.0)), picture)
    e = math.e  # [CLS] is 1, so its scores are the tokens themselves: 1, -1, 0, 1
    assert torch.allclose(seen, torch.tensor([[[1.0, e]]]) / (e + 1 / e + 1 + e))


def test_without_a_leading_token_the_mean_of_all_queries_is_taken() -> None:
    picture = torch.tensor([0.0, 1.0]).view(1, 1, 1, 2)
    (seen,) = class_attention(Looker(attention_with(1, 0, 1)), picture)
    left = (1 / 2 + 1 / (1 + math.e)) / 2  # the query 0 sees both alike, the query 1 has the scores 0 and 1
    assert torch.allclose(seen, torch.tensor([[[left, 1 - left]]]))


def test_the_patterns_of_a_layer_are_one_map_over_all_its_heads() -> None:
    attention = Attention(2, 2, patterns=[Pattern(), Pattern(Rows())])
    nn.init.zeros_(attention.projection.joint.weight)
    nn.init.zeros_(attention.projection.joint.bias)
    (layer,) = layers(Looker(attention), pixels(1, 2, 2, 2))
    near, far = (1 / 4 + 1 / 2) / 2, (1 / 4 + 0) / 2  # one head sees four patches, the other the two of its row
    by_hand = [[near, near, far, far], [near, near, far, far], [far, far, near, near], [far, far, near, near]]
    assert torch.allclose(layer.mean[0], torch.tensor(by_hand))


def test_a_block_that_runs_three_times_is_three_layers() -> None:
    assert len(layers(Looker(attention_with(1, 0, 1), times=3), pixels(1, 1, 2, 2))) == 3


def test_maps_lie_on_the_grid_of_the_keys() -> None:
    (seen,) = class_attention(Looker(Attention(1, 1, projection=FirstTwo())), pixels(1, 1, 2, 3))
    assert seen.shape == (1, 1, 2)
    assert torch.allclose(seen.sum(), torch.tensor(1.0))


class Fixed:
    """A layer of known weights (queries, keys), for these tests."""

    def __init__(self, rows: list[list[float]]) -> None:
        self.weights, self.stage, self.name = torch.tensor([rows]), 0, "attention"
        self.grid = self.key_grid = Grid(1, len(rows))

    def mean_attended_by(self, readers: Tensor) -> Tensor:
        return readers @ self.weights


def test_rollout_of_two_layers_by_hand() -> None:
    first, second = Fixed([[0.5, 0.5], [0.0, 1.0]]), Fixed([[0.0, 1.0], [1.0, 0.0]])
    # with the residual: [[3/4, 1/4], [0, 1]] and [[1/2, 1/2], [1/2, 1/2]]; the other order would give 1/2 everywhere
    whole = rollout_rows([first, second], Geometry(nn.Identity()), torch.eye(2)[None])
    assert torch.allclose(whole, torch.tensor([[[0.375, 0.625], [0.375, 0.625]]]))


@pytest.mark.parametrize("name", ["vit-tiny-16", "deit-tiny-distilled"])
def test_whole_models(name: str) -> None:
    model, images = tiny(name, image=(16, 40)), pixels(3, 3, 16, 40)
    assert_sharp(model, images)
    with torch.no_grad(), record_attention(model) as maps:
        model(images)
    prefix = maps[0].grid.prefix
    seen = class_attention(model, images)
    for layer, attention in zip(seen, maps, strict=True):
        assert layer.shape == (3, 2, 5)
        # one patch at a time: row 1, column 3 is token prefix + 1 * 5 + 3
        assert torch.allclose(layer[2, 1, 3], attention.weights[2, :, 0, prefix + 8].mean())
    tokens = 2 * 5 + prefix
    whole = rollout_rows(layers(model, images), Geometry(model), torch.eye(tokens)[None])
    assert torch.allclose(whole.sum(-1), torch.ones(3, 2 * 5 + prefix), atol=1e-6)
    assert torch.allclose(rollout(model, images)[1, 0, 2], whole[1, 0, prefix + 2])


def test_a_change_in_the_first_layer_alone_changes_the_rollout() -> None:
    model, images = tiny(), pixels(2, 3, 32, 32)
    seen, before = class_attention(model, images), rollout(model, images)
    attention = model.stages[0].encoder.blocks[0].attention.sublayer
    with torch.no_grad():
        attention.projection.joint.weight[:32] *= -1  # queries look away from what they looked at
    after = class_attention(model, images)
    assert (after[0] - seen[0]).abs().max() > 0.05
    assert (rollout(model, images) - before).abs().max() > 0.01


def test_the_model_is_left_as_it_was_and_no_gradient_is_kept() -> None:
    model, images = tiny(), pixels(1, 3, 32, 32)
    before = model(images)
    assert not rollout(model, images).requires_grad
    assert torch.equal(model(images), before)


def test_a_model_without_attention_has_no_maps_and_no_rollout() -> None:
    assert class_attention(nn.Flatten(), pixels(1, 1, 2, 2)) == []
    with pytest.raises(UserError, match="a model with attention"):
        rollout(nn.Flatten(), pixels(1, 1, 2, 2))
