"""Attention against a reference that treats one query of one head at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import (
    Attention,
    Full,
    LinearProjection,
    Pattern,
    Position,
    Projected,
    ScaledDotProduct,
    members,
    record_attention,
    reference_attention,
)
from support.helpers import assert_sharp, difference, pixels, randomise, tiny

WIDTH, HEADS = 16, 4
GRID = Grid(5, 3)


class Strips:
    """A partition for these tests: groups of whole rows; the last group is padded where the rows do not fit."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def split(self, tokens: Tensor, grid: Grid) -> Tensor:
        padded = F.pad(tokens, (0, 0, 0, self._missing(grid)))
        return padded.unflatten(1, (-1, self.rows * grid.width)).flatten(0, 1)

    def merge(self, groups: Tensor, grid: Grid) -> Tensor:
        return groups.unflatten(0, (-1, -(-grid.height // self.rows))).flatten(1, 2)[:, : grid.tokens]

    def mask(self, grid: Grid, device: torch.device) -> Tensor | None:
        if not self._missing(grid):
            return None
        real = self.split(torch.ones(1, grid.tokens, 1, dtype=torch.bool, device=device), grid)[..., 0]
        return real[:, None, None, :].expand(-1, 1, real.shape[1], -1)

    def inner(self, grid: Grid) -> Grid:
        return Grid(self.rows, grid.width)

    def _missing(self, grid: Grid) -> int:
        return -grid.height % self.rows * grid.width

    def meet(self, grid: Grid) -> Tensor:
        """(tokens, tokens): the rule said once more, without groups"""
        strip = torch.arange(grid.tokens) // grid.width // self.rows
        return strip[:, None] == strip[None, :]


class Everywhere(Position):
    """A position that enters in all three places and remembers the grids it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.printed: list[Grid | None] = []

    def rotate(self, query, key, inner):
        self.printed.append(inner)
        return -query, 2 * key

    def bias(self, query, key, inner):
        self.printed.append(inner)
        return torch.arange(query.shape[2] * key.shape[2]).view(1, 1, query.shape[2], key.shape[2]).sin()

    def enhance(self, attended, value, inner):
        self.printed.append(inner)
        return attended + 3 * value


def make(*patterns: Pattern, **options: object) -> Attention:
    return randomise(Attention(WIDTH, HEADS, patterns=patterns, **options)).eval()


def scene(batch: int = 2) -> tuple[Tensor, Scope]:
    return pixels(batch, GRID.tokens, WIDTH), Scope(grid=GRID)


def reference(attention: Attention, tokens: Tensor, meet: Tensor) -> tuple[Tensor, Tensor]:
    """Output and weights, by the formula; `meet`, over (batch, heads, queries, keys), says which pairs exist."""
    query, key, value = (part.unflatten(-1, (HEADS, -1)) for part in attention.projection.joint(tokens).chunk(3, -1))
    mixed = torch.zeros_like(query)
    weights = torch.zeros(len(tokens), HEADS, tokens.shape[1], tokens.shape[1])
    meet = meet.expand(weights.shape)
    for example in range(len(tokens)):
        for head in range(HEADS):
            for token in range(tokens.shape[1]):
                keys = meet[example, head, token].nonzero()[:, 0]
                scores = key[example, keys, head] @ query[example, token, head] / (WIDTH // HEADS) ** 0.5
                weights[example, head, token, keys] = scores.exp() / scores.exp().sum()
                mixed[example, token, head] = weights[example, head, token] @ value[example, :, head]
    return attention.output(mixed.flatten(2)), weights


def random_mask(*shape: int) -> Tensor:
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(2)) > 0.4
    return mask | (torch.arange(shape[-1]) == 0)  # nobody is left without a key


MASKS = {
    "none": None,
    "keys": random_mask(2, 1, 1, GRID.tokens),
    "causal": torch.ones(GRID.tokens, GRID.tokens, dtype=torch.bool).tril(),
    "pairs": random_mask(2, HEADS, GRID.tokens, GRID.tokens),
}


@pytest.mark.parametrize("position", [Position, Everywhere])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@torch.no_grad()
def test_fused_equals_plain(mask, position):
    attention = make(Pattern(position=position()))
    tokens, scope = pixels(2, GRID.tokens, WIDTH), Scope(mask=mask, grid=GRID)
    fused = attention(tokens, scope)
    with reference_attention(attention):
        plain = attention(tokens, scope)
    assert difference(fused, plain) < 1e-5


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@torch.no_grad()
def test_everything_equals_the_reference(mask):
    attention, tokens = make(), scene()[0]
    expected, _ = reference(attention, tokens, torch.tensor(True) if mask is None else mask)
    assert difference(attention(tokens, Scope(mask=mask, grid=GRID)), expected) < 1e-5


@torch.no_grad()
def test_a_query_with_no_key_left_is_the_same_in_both_cores():
    attention = make()
    mask = torch.ones(1, 1, GRID.tokens, GRID.tokens, dtype=torch.bool)
    mask[:, :, 2] = False
    fused = attention(scene()[0], Scope(mask=mask))
    with reference_attention(attention):
        plain = attention(scene()[0], Scope(mask=mask))
    assert fused.isfinite().all()
    assert difference(fused, plain) < 1e-5


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_split_and_merge_are_inverse(rows):
    tokens = scene()[0]
    groups = Strips(rows).split(tokens, GRID)
    assert groups.shape == (2 * -(-5 // rows), rows * 3, WIDTH)
    assert torch.equal(Strips(rows).merge(groups, GRID), tokens)


def test_members_of_a_padded_partition():
    expected = [[0, 1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14, -1, -1, -1]]
    assert members(Strips(3), GRID.tokens, GRID).tolist() == expected


def test_members_of_everything():
    assert members(Full(), 4, None).tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@torch.no_grad()
def test_a_partition_equals_the_reference(rows, fused):
    attention = make(Pattern(Strips(rows)))
    attention.core.fused = fused
    tokens, scope = scene()
    expected, _ = reference(attention, tokens, Strips(rows).meet(GRID))
    assert difference(attention(tokens, scope), expected) < 1e-5


@pytest.mark.parametrize("rows", [1, 2, 5])
@torch.no_grad()
def test_dense_maps_equal_the_reference(rows):
    attention = make(Pattern(Strips(rows)))
    tokens, scope = scene()
    with record_attention(attention) as maps:
        attention(tokens, scope)
    _, expected = reference(attention, tokens, Strips(rows).meet(GRID))
    assert len(maps) == 1
    assert maps[0].groups().tolist() == members(Strips(rows), GRID.tokens, GRID).tolist()
    torch.testing.assert_close(maps[0].dense(), expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_two_patterns_share_the_heads():
    attention = make(Pattern(Strips(2)), Pattern())
    tokens, scope = scene()
    strips = Strips(2).meet(GRID)
    meet = torch.stack([strips, strips, torch.ones_like(strips), torch.ones_like(strips)])
    expected, weights = reference(attention, tokens, meet)
    with record_attention(attention) as maps:
        recorded = attention(tokens, scope)
    assert difference(attention(tokens, scope), expected) < 1e-5
    assert difference(recorded, expected) < 1e-5
    torch.testing.assert_close(torch.cat([part.dense() for part in maps], 1), weights, atol=1e-5, rtol=0)


@torch.no_grad()
def test_position_enters_in_three_places():
    position = Everywhere()
    attention = make(Pattern(Strips(5), position))
    tokens, scope = scene()
    query, key, value = (
        part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in attention.projection.joint(tokens).chunk(3, -1)
    )
    bias = torch.arange(GRID.tokens**2).view(GRID.tokens, GRID.tokens).sin()
    weights = (-query @ (2 * key).mT * (WIDTH // HEADS) ** -0.5 + bias).softmax(-1)
    expected = attention.output((weights @ value + 3 * value).transpose(1, 2).flatten(2))
    assert difference(attention(tokens, scope), expected) < 1e-5
    assert position.printed == [GRID] * 3


@torch.no_grad()
def test_position_is_told_the_grid_of_one_group():
    position = Everywhere()
    tokens, scope = scene()
    make(Pattern(Strips(2), position))(tokens, scope)
    assert position.printed == [Grid(2, 3)] * 3


@torch.no_grad()
def test_bias_and_padding_together():
    """A bias must not let a query read the zeros a group is padded with."""
    attention = make(Pattern(Strips(2), Everywhere()))
    tokens, scope = scene()
    with record_attention(attention) as maps:
        attention(tokens, scope)
    padded = maps[0].groups() == -1
    weights = maps[0].weights.unflatten(0, (-1, len(padded)))
    assert padded.sum() == 3
    assert weights[:, 2, ..., padded[2]].abs().max() == 0
    torch.testing.assert_close(maps[0].dense().sum(-1), torch.ones(2, HEADS, GRID.tokens))


class Causal(Full):
    """A partition of one group in which nobody reads what comes later."""

    def mask(self, grid: Grid, device: torch.device) -> Tensor:
        return torch.ones(1, 1, grid.tokens, grid.tokens, dtype=torch.bool, device=device).tril()


@pytest.mark.parametrize("fused", [True, False])
@torch.no_grad()
def test_the_masks_of_the_scope_and_of_the_partition_both_hold(fused):
    attention = make(Pattern(Causal()))
    attention.core.fused = fused
    tokens, scope = scene()[0], Scope(mask=MASKS["keys"], grid=GRID)
    expected, _ = reference(attention, tokens, MASKS["keys"] & MASKS["causal"])
    assert difference(attention(tokens, scope), expected) < 1e-5


class FirstColumn(LinearProjection):
    """Keys and values from the first column of the grid only."""

    def forward(self, tokens: Tensor, scope: Scope) -> Projected:
        whole = super().forward(tokens, scope)
        return Projected(whole.query, whole.key[:, ::3], whole.value[:, ::3], None, Grid(5, 1))


@pytest.mark.parametrize("rows", [1, 5])
@torch.no_grad()
def test_a_projection_may_bring_its_own_keys(rows):
    attention = make(Pattern(Strips(rows)), projection=FirstColumn(WIDTH))
    tokens, scope = scene()
    expected, weights = reference(attention, tokens, Strips(rows).meet(GRID) & (torch.arange(GRID.tokens) % 3 == 0))
    assert difference(attention(tokens, scope), expected) < 1e-5
    with record_attention(attention) as maps:
        attention(tokens, scope)
    torch.testing.assert_close(maps[0].dense(), weights[..., ::3], atol=1e-5, rtol=0)


def test_scale_can_be_given():
    attention = make(scale=0.0)
    with record_attention(attention) as maps:
        attention(*scene())
    torch.testing.assert_close(maps[0].weights, torch.full_like(maps[0].weights, 1 / GRID.tokens))


@pytest.mark.parametrize("fused", [True, False])
def test_dropout_of_the_weights_only_in_training(fused):
    attention = make(dropout=0.5)
    attention.core.fused = fused
    tokens, scope = scene()
    assert torch.equal(attention(tokens, scope), attention(tokens, scope))
    attention.train()
    assert not torch.equal(attention(tokens, scope), attention(tokens, scope))


def test_width_the_heads_do_not_divide():
    with pytest.raises(UserError, match="width 30 cannot be shared by 4 heads") as caught:
        Attention(30, 4)
    assert caught.value.hint == "try heads=3 or width=32"
    Attention(30, 3)
    Attention(32, 4)


def test_heads_the_patterns_do_not_divide():
    with pytest.raises(UserError, match="4 heads cannot be shared by 3 patterns"):
        Attention(WIDTH, 4, patterns=[Pattern(), Pattern(), Pattern()])


def test_second_derivative_under_plain_attention():
    attention = make()
    tokens, scope = scene(1)
    with reference_attention(attention):

        def loss(x: Tensor) -> Tensor:
            return attention(x, scope).square().sum()

        x, direction, step = tokens.double(), pixels(*tokens.shape, seed=5).double(), 1e-5
        attention.double()
        _, product = torch.autograd.functional.hvp(loss, x, direction)
        gradient = torch.func.grad(loss)
        by_difference = (gradient(x + step * direction) - gradient(x - step * direction)) / (2 * step)
    assert difference(product, by_difference) < 1e-5


def switches(model) -> list[tuple[bool, object]]:
    return [(core.fused, core.recorder) for core in model.modules() if isinstance(core, ScaledDotProduct)]


@torch.no_grad()
def test_recording_shows_every_layer_and_changes_nothing():
    model, images = tiny(), pixels(2, 3, 32, 32)
    before, output = switches(model), model(images)
    with record_attention(model) as maps:
        recorded = model(images)
    assert switches(model) == before == [(True, None)] * 2
    assert difference(recorded, output) < 1e-5
    assert [part.layer for part in maps] == [f"stages.0.encoder.blocks.{i}.attention.sublayer" for i in range(2)]
    assert [part.grid for part in maps] == [Grid(4, 4, prefix=1)] * 2
    for part in maps:
        assert part.dense().shape == (2, 4, 17, 17)
        torch.testing.assert_close(part.dense().sum(-1), torch.ones(2, 4, 17))
    assert_sharp(model, images)


@torch.no_grad()
def test_recorders_nest():
    model, images = tiny(), pixels(1, 3, 32, 32)
    with record_attention(model) as outer:
        outside = switches(model)
        with reference_attention(model), record_attention(model) as inner:
            model(images)
        assert switches(model) == outside
        model(images)
    assert (len(inner), switches(model)) == (2, [(True, None)] * 2)
    assert torch.equal(outer[-1].weights, inner[-1].weights)


@pytest.mark.parametrize("switch", [record_attention, reference_attention])
def test_the_model_is_as_it_was_when_the_body_raises(switch):
    model = tiny()

    def fail() -> None:
        with switch(model):
            assert switches(model) != [(True, None)] * 2
            raise RuntimeError("the body")

    with pytest.raises(RuntimeError, match="the body"):
        fail()
    assert switches(model) == [(True, None)] * 2


def test_plain_attention_keeps_what_was_plain_before():
    model = tiny()
    first = next(core for core in model.modules() if isinstance(core, ScaledDotProduct))
    first.fused = False
    with reference_attention(model):
        assert switches(model) == [(False, None)] * 2
    assert switches(model) == [(False, None), (True, None)]


def test_recorded_weights_hold_no_graph():
    model = tiny()
    with record_attention(model) as maps:
        model(pixels(1, 3, 32, 32)).sum().backward()
    assert not any(part.weights.requires_grad for part in maps)
    assert all(parameter.grad is not None for parameter in model.parameters())
