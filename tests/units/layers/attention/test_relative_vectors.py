"""Relative vectors inside attention, against the equations of the paper written with a vector for every pair."""

import pytest
import torch
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import Attention, Causal, Full, Pattern, RelativeVectors, reference_attention
from support.helpers import difference, pixels, randomise

WIDTH, HEADS, TOKENS, REACH = 12, 3, 9, 2


def layer(position: RelativeVectors, partition: Full | None = None) -> Attention:
    return randomise(Attention(WIDTH, HEADS, patterns=[Pattern(partition, position)])).eval()


def by_hand(attention: Attention, tokens: Tensor, relation: Tensor, allowed: Tensor, on_values: bool = True) -> Tensor:
    """Equations 3 to 5, one query and one head at a time; relation (tokens, tokens) names the vectors of a pair."""
    position, head = attention.patterns[0].position, WIDTH // HEADS
    query, key, value = attention.projection.joint(tokens).chunk(3, -1)
    answer = torch.zeros_like(tokens)
    for text in range(len(tokens)):
        for number in range(HEADS):
            own = slice(number * head, (number + 1) * head)
            for i in range(tokens.shape[1]):
                keys = key[text, :, own] + position.keys[relation[i]]
                scores = (keys @ query[text, i, own]) / head**0.5
                weights = scores.masked_fill(~allowed[i], float("-inf")).softmax(0)
                values = value[text, :, own] + (position.values[relation[i]] if on_values else 0)
                answer[text, i, own] = weights @ values
    return attention.output(answer)


def distances(tokens: int = TOKENS) -> Tensor:
    return torch.tensor([[max(-REACH, min(REACH, j - i)) + REACH for j in range(tokens)] for i in range(tokens)])


EVERYONE = torch.ones(TOKENS, TOKENS, dtype=torch.bool)


@pytest.mark.parametrize("partition", [Full(), Causal()])
@torch.no_grad()
def test_it_equals_the_equations(partition):
    attention, tokens = layer(RelativeVectors(WIDTH // HEADS, REACH), partition), pixels(2, TOKENS, WIDTH)
    allowed = EVERYONE.tril() if isinstance(partition, Causal) else EVERYONE
    ours = attention(tokens, Scope())
    assert difference(ours, by_hand(attention, tokens, distances(), allowed)) < 1e-5
    with reference_attention(attention):
        assert torch.equal(attention(tokens, Scope()), ours)
    # mutations: the other direction, no clipping at the reach, keys alone
    assert difference(ours, by_hand(attention, tokens, distances().t(), allowed)) > 1e-2
    assert difference(ours, by_hand(attention, tokens, distances().clamp(1, 3), allowed)) > 1e-2
    assert difference(ours, by_hand(attention, tokens, distances(), allowed, on_values=False)) > 1e-2


@torch.no_grad()
def test_on_a_grid_rows_and_columns_are_clipped_each_and_leading_tokens_have_their_own():
    grid, reach = Grid(2, 4, prefix=1), 1
    attention = layer(RelativeVectors(WIDTH // HEADS, reach, dimensions=2))
    relation = torch.full((TOKENS, TOKENS), 9)
    for i in range(8):
        for j in range(8):
            row, column = (max(-1, min(1, part)) + 1 for part in (j // 4 - i // 4, j % 4 - i % 4))
            relation[i + 1, j + 1] = 3 * row + column
    tokens = pixels(1, TOKENS, WIDTH)
    assert difference(attention(tokens, Scope(grid=grid)), by_hand(attention, tokens, relation, EVERYONE)) < 1e-5
    assert attention.patterns[0].position.keys.shape == (10, WIDTH // HEADS)


@torch.no_grad()
def test_padding_is_not_read():
    attention, tokens = layer(RelativeVectors(WIDTH // HEADS, REACH)), pixels(1, TOKENS, WIDTH)
    mask = torch.arange(TOKENS)[None, None, None] < 6
    whole, short = attention(tokens, Scope(mask=mask)), attention(tokens[:, :6], Scope())
    assert difference(whole[:, :6], short) < 1e-5


@torch.no_grad()
def test_a_model_reads_a_text_alike_wherever_it_begins():
    """All that is told is distance, so words in front that nobody may read change nothing."""
    sizes = {"vocabulary": 20, "width": WIDTH, "depth": 1, "heads": HEADS, "hidden": 8}
    model = randomise(patchword.create("gpt", **sizes, position="shaw")).eval()
    attention = model.encoder.blocks[0].attention.sublayer
    tokens = pixels(1, TOKENS, WIDTH)
    mask = torch.arange(TOKENS)[None, None, None] >= 3
    assert difference(attention(tokens, Scope(mask=mask))[:, 3:], attention(tokens[:, 3:], Scope())) < 1e-5


def test_a_reach_of_nothing_is_refused():
    with pytest.raises(UserError, match="relative positions"):
        RelativeVectors(4, 0)
