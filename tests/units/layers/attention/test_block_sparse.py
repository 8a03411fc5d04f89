"""Big Bird's blocks against a dense reference that is written here, query block by query block."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import patchword
from patchword.analysis.cost import count, text_of
from patchword.core.errors import UserError
from patchword.core.scope import Scope
from patchword.core.text import Packed
from patchword.layers import Attention, BlockSparse, Pattern, Position, record_attention, reference_attention
from patchword.layers.attention.block_sparse import draw
from patchword.layers.attention.recording import follow_attention
from support.helpers import difference, one_row, randomise, texts

BLOCK, DRAWN, HEADS, WIDTH = 4, 2, 3, 24
LONG = (37, 40, 59)  # one token over what runs full attention, and padded inside but for 40


def attention(
    seed: int = 1, random: str = "seeded", dropout: float = 0.0, position: Position | None = None
) -> Attention:
    pattern = Pattern(BlockSparse(seed, BLOCK, DRAWN, positions=64, random=random), position)
    return randomise(Attention(WIDTH, HEADS, patterns=[pattern], dropout=dropout)).eval()


def tokens(length: int, batch: int = 2) -> Tensor:
    return torch.randn(batch, length, WIDTH, generator=torch.Generator().manual_seed(3))


def mask_of(length: int) -> Tensor:
    """The second text is shorter."""
    return torch.arange(length) < torch.tensor([[length], [length - 14]])


def times_read(length: int, plan: np.ndarray) -> Tensor:
    """(heads, tokens, tokens): how often each query reads each key; plan: (heads, blocks - 2, drawn)"""
    blocks = -(-length // BLOCK)
    found = torch.zeros(HEADS, blocks, blocks)
    for head, row in itertools.product(range(HEADS), range(blocks)):
        if row in (0, blocks - 1):
            found[head, row] = 1
            continue
        for column in {0, row - 1, row, row + 1, blocks - 1}:
            found[head, row, column] = 1
        for column in plan[head, row - 1]:
            found[head, row, column] += 1
    whole = found.repeat_interleave(BLOCK, 1).repeat_interleave(BLOCK, 2)
    return whole[:, :length, :length]


def reference(layer: Attention, given: Tensor, mask: Tensor | None, plan: np.ndarray) -> tuple[Tensor, Tensor]:
    """The layer's answer and weights, with the whole matrix in memory."""
    parts = layer.projection(given, Scope())[:3]
    query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
    scores = query @ key.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5
    times = times_read(given.shape[1], plan)[None]
    times = times if mask is None else times * mask[:, None, None]
    raised = times * (scores - scores.max(-1, keepdim=True).values).exp()
    weights = raised / raised.sum(-1, keepdim=True)
    return layer.output((weights @ value).transpose(1, 2).flatten(2)), weights


def plan_of(length: int, seed: int = 1) -> np.ndarray:
    return draw(seed, -(-length // BLOCK), HEADS, BLOCK, DRAWN, 64)


def scope_of(mask: Tensor | None) -> Scope:
    return Scope(mask=None if mask is None else mask[:, None, None])


def there(answer: Tensor, mask: Tensor | None) -> Tensor:
    return answer if mask is None else answer[mask]


# Against the dense reference


@pytest.mark.parametrize("length", LONG)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("random", ["seeded", "huggingface"])
@torch.no_grad()
def test_blocks_equal_the_dense_reference(length, padded, random):
    layer, given, mask = attention(random=random), tokens(length), mask_of(length) if padded else None
    plan = plan_of(length) if random == "seeded" else np.zeros_like(plan_of(length))
    expected, weights = reference(layer, given, mask, plan)
    assert float(weights.max()) > 0.9  # it looks somewhere
    fused = layer(given, scope_of(mask))
    with reference_attention(layer):
        plain = layer(given, scope_of(mask))
    assert difference(there(fused, mask), there(expected, mask)) < 1e-5
    assert difference(there(plain, mask), there(expected, mask)) < 1e-5


@pytest.mark.parametrize("length", LONG)
@pytest.mark.parametrize("fused", [True, False])
def test_gradients_equal_the_dense_reference(length, fused):
    layer, mask = attention(), mask_of(length)
    layer.core.fused = fused
    found = []
    for sparse in (True, False):
        given = tokens(length).requires_grad_()
        layer.zero_grad()
        answer = layer(given, scope_of(mask)) if sparse else reference(layer, given, mask, plan_of(length))[0]
        (answer[mask] * torch.linspace(-1, 1, WIDTH)).sum().backward()
        found.append([given.grad, *(parameter.grad.clone() for parameter in layer.parameters())])
    for one, other in zip(*found, strict=True):
        scale = max(float(gradient.abs().max()) for gradient in found[1])
        assert float((one - other).abs().max()) < 1e-5 * scale


@pytest.mark.parametrize("random", ["seeded", "huggingface"])
@torch.no_grad()
def test_recorded_maps_are_those_of_the_dense_reference(random):
    """A block that is read twice has the sum of both, and the scores tell the same."""
    layer, given, mask = attention(random=random), tokens(59), mask_of(59)
    plan = plan_of(59) if random == "seeded" else np.zeros_like(plan_of(59))
    with record_attention(layer) as maps:
        answer = layer(given, scope_of(mask))
    expected, weights = reference(layer, given, mask, plan)
    dense = maps[0].dense()
    assert dense.shape == (2, HEADS, 59, 59)
    assert difference(dense, weights) < 1e-5
    assert not dense[:, :, times_read(59, plan)[0] == 0][:, 0].any()
    with follow_attention(layer) as calls:
        layer(given, scope_of(mask))
    assert difference(calls[0].scores.softmax(-1), weights) < 1e-5
    assert difference(answer[mask], expected[mask]) < 1e-5


MISTAKES = {
    "another seed": lambda plan: plan_of(59, seed=2),
    "no random blocks": lambda plan: plan[..., :0],
    "heads exchanged": lambda plan: plan[[1, 0, 2]],
    "one block moved": lambda plan: np.where(np.arange(13)[:, None] == 5, 13, plan),
    "blocks shifted": lambda plan: np.roll(plan, 1, axis=1),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@torch.no_grad()
def test_a_mistake_in_the_plan_is_found(mistake):
    layer, given = attention(), tokens(59)
    wrong = MISTAKES[mistake](plan_of(59))
    assert difference(layer(given, Scope()), reference(layer, given, None, wrong)[0]) > 1e-3


@pytest.mark.parametrize("place", ["first", "last", "before", "itself", "behind"])
@torch.no_grad()
def test_a_block_that_is_not_read_is_found(place, monkeypatch):
    layer, given = attention(), tokens(59)
    expected = layer(given, Scope())
    whole = BlockSparse.read
    slot = ["first", "last", "before", "itself", "behind"].index(place)

    def mutated(self, blocks, heads):
        index = whole(self, blocks, heads).clone()
        index[:, 6, slot] = 2
        return index

    monkeypatch.setattr(BlockSparse, "read", mutated)
    assert difference(layer(given, Scope()), expected) > 1e-3


# Short and long


@torch.no_grad()
def test_short_texts_meet_everything_and_that_is_decided_for_each_batch():
    sparse, full = attention(), randomise(Attention(WIDTH, HEADS)).eval()
    expected = sparse(tokens(40), Scope())
    for length in (1, 8, 36):
        assert torch.equal(sparse(tokens(length), Scope()), full(tokens(length), Scope()))
    assert torch.equal(sparse(tokens(40), Scope()), expected)
    assert difference(full(tokens(40), Scope()), expected) > 1e-2
    assert difference(full(tokens(37), Scope()), sparse(tokens(37), Scope())) > 1e-2


@torch.no_grad()
def test_long_texts_in_one_row_equal_the_padded_batch():
    sizes = {"width": 24, "depth": 2, "heads": 3, "hidden": 32, "vocabulary": 61, "max_length": 64, "block": BLOCK}
    model = randomise(patchword.create("bigbird-base", **sizes, random_blocks=DRAWN, head="tokens")).eval()
    batch = texts(50, 38, 61, 5)
    row = one_row(batch)
    assert isinstance(row.packed, Packed)
    assert difference(model(row)[0], model(batch)[batch.mask]) < 1e-5


def test_no_dropout_where_blocks_are_read():
    layer = attention(dropout=0.5).train()
    assert torch.equal(layer(tokens(40), Scope()), layer(tokens(40), Scope()))
    assert not torch.equal(layer(tokens(36), Scope()), layer(tokens(36), Scope()))


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor holds that is made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        answer = func(*args, **(kwargs or {}))
        self.numbers = max(self.numbers, *(leaf.numel() for leaf in tree_leaves(answer) if isinstance(leaf, Tensor)), 0)
        return answer


@pytest.mark.parametrize("fused", [True, False])
def test_no_tensor_grows_with_the_square_of_the_length(fused):
    layer = attention()
    layer.core.fused = fused
    found = []
    for length in (256, 512, 1024):
        with Largest() as largest:
            layer(tokens(length, 1).requires_grad_(), Scope()).sum().backward()
        found.append(largest.numbers)
    assert found[2] < HEADS * 1024 * 1024 / 4
    assert found[2] / found[1] < 2.1
    assert found[1] / found[0] < 2.1


@torch.no_grad()
def test_compiles_without_a_break():
    torch.compiler.reset()
    layer, given, mask = attention(), tokens(59), mask_of(59)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    assert difference(compiled(given, scope_of(mask)), layer(given, scope_of(mask))) < 1e-5


class Bias(Position):
    def bias(self, query, key, grid):
        return torch.zeros(1, HEADS, query.shape[2], key.shape[2])


def test_what_blocks_cannot_do_is_said():
    causal = torch.ones(40, 40, dtype=torch.bool).tril()[None, None]
    with pytest.raises(UserError, match="block-sparse attention: expected a mask of keys only"):
        attention()(tokens(40), Scope(mask=causal))
    with pytest.raises(UserError, match="block-sparse attention: expected a mask of keys only"):
        attention(position=Bias())(tokens(40), Scope())


# The plan


@pytest.mark.parametrize(("length", "columns"), [(1024, 15), (3072, 15), (4096, 15), (2048, 9), (768, 9), (8192, 9)])
def test_random_blocks_are_distinct_and_outside_the_window(length, columns):
    plan = draw(3, length // 64, 12, 64, 3, max(4096, length))
    assert plan.shape == (12, length // 64 - 2, 3)
    assert plan.min() == 1
    assert plan.max() == columns
    for head, row in itertools.product(range(12), range(plan.shape[1])):
        drawn = plan[head, row]
        assert len(set(drawn)) == 3
        assert (abs(drawn - (row + 1)) > 1).all()


def test_a_plan_follows_from_its_seed_and_leaves_other_randomness_alone():
    np.random.seed(5)
    expected = np.random.rand()
    np.random.seed(5)
    draw.cache_clear()
    first = draw(0, 32, 2, 64, 3, 4096)
    assert np.random.rand() == expected
    assert (first == draw(0, 32, 2, 64, 3, 4096)).all()
    assert (first != draw(1, 32, 2, 64, 3, 4096)).any()
    assert (first[0] != first[1]).any()


def test_where_the_first_1024_tokens_have_too_few_blocks_the_plan_by_length_is_used():
    plan = draw(0, 16, 2, 256, 3, 4096)
    assert plan.shape == (2, 14, 3)
    assert plan.max() == 9


# The cost


@pytest.mark.parametrize(
    ("length", "pairs"), [(704, 704 * 704), (705, 64 * (2 * 768 + 10 * 512)), (4096, 64 * (2 * 4096 + 62 * 512))]
)
def test_the_cost_is_that_of_the_blocks_read(length, pairs):
    with torch.device("meta"):
        card = patchword.create("bigbird-base", depth=1).card
    assert count(card, inputs=text_of(card, length)).macs_of("attention") == 2 * 768 * pairs
