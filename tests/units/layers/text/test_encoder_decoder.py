"""The parts of models that write a text for a text: memory, embedding, attention over the memory, kept keys."""

from itertools import pairwise

import pytest
import torch
from torch import nn

import patchword
from patchword.core.scope import Scope
from patchword.core.text import Pair, Text
from patchword.layers import Attention, Cache, Encoder, FromMemory, Memory, MemoryProjection, TokenEmbedding
from patchword.training.schedule import InverseRoot
from support.helpers import TINY_PAIR, difference, pairs, randomise, tiny_pair

BATCH = pairs((17, 9, 24, 2), (5, 20, 11, 24))


def test_a_pair_moves_as_one():
    moved = BATCH.to(torch.device("meta"))
    assert moved.device.type == moved.source.mask.device.type == moved.target.ids.device.type == "meta"
    assert BATCH.device.type == "cpu"


def test_an_embedding_scales_words_and_adds_their_places():
    class Places(nn.Module):
        def forward(self, places):
            return 100.0 * places[..., None]

    embedding = TokenEmbedding(9, 4, 10, positions=Places(), scale=2.0)
    ids = torch.tensor([[3, 1, 3]])
    expected = 2 * embedding.words.weight[ids] + torch.tensor([5.0, 6.0, 7.0])[:, None] * 100
    assert torch.equal(embedding(Text(ids), 5), expected)
    printed = Text(ids, positions=torch.tensor([[7, 6, 5]]))
    assert torch.equal(embedding(printed), 2 * embedding.words.weight[ids] + torch.tensor([7.0, 6, 5])[:, None] * 100)


def test_a_memory_is_taken_with_all_it_holds():
    memory = Memory(torch.randn(3, 5, 4), torch.rand(3, 5) > 0.5, (torch.randn(3, 2, 4), torch.randn(3, 2, 4)))
    index = torch.tensor([2, 0, 2])
    taken = memory.take(index)
    assert torch.equal(taken.tokens, memory.tokens[index])
    assert torch.equal(taken.mask, memory.mask[index])
    assert all(torch.equal(one, other[index]) for one, other in zip(taken.state, memory.state, strict=True))
    bare = Memory(memory.tokens, None).take(index)
    assert bare.mask is None
    assert bare.state is None


def test_queries_come_from_the_tokens_and_keys_from_the_memory():
    attention = randomise(Attention(8, 2, projection=MemoryProjection(8))).eval()
    tokens, memory = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()
    theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    parts = list(attention.projection.children())
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.load_state_dict(attention.output.state_dict())
    scope = Scope(memory=memory, memory_mask=mask[:, None, None], mask=torch.zeros(1, dtype=torch.bool))
    expected = theirs(tokens, memory, memory, key_padding_mask=~mask)[0]
    assert difference(attention(tokens, scope), expected) < 1e-5
    assert difference(attention(tokens, Scope(memory=memory)), expected) > 1e-3


@pytest.mark.parametrize("name", ["transformer-small", "lstm-translation-small"])
@torch.no_grad()
def test_keys_of_the_memory_are_worked_out_once(name):
    options = {"attention": "additive"} if name.startswith("lstm") else {}
    model, seen = tiny_pair(name, dropout=0.0, **options), []
    kind = "key" if options else "joint"
    for module in model.modules():
        if isinstance(module, FromMemory):
            module.get_submodule(kind).register_forward_hook(lambda _, given, __: seen.append(given[0].shape[1]))
    memory, cache = model.encode(BATCH.source), Cache()
    for place in range(6):
        model.decode(Text(BATCH.target.ids[:, place : place + 1]), memory, cache)
    assert seen == [24] * (2 if name.startswith("transformer") else 1)
    assert cache.length == 6


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "shaw"])
@torch.no_grad()
def test_a_target_in_pieces_equals_the_whole(norm, scheme):
    model = tiny_pair(norm=norm, position=scheme)
    memory, cache = model.encode(BATCH.source), Cache()
    whole = model.decode(BATCH.target, memory)
    cuts = [0, 1, 2, 7, 8, 24]
    parts = [model.decode(Text(BATCH.target.ids[:, a:b]), memory, cache) for a, b in pairwise(cuts)]
    assert difference(torch.cat(parts, 1), whole) < 1e-5


def test_a_norm_in_front_brings_a_norm_behind():
    post, pre = (patchword.create("transformer-small", **TINY_PAIR, norm=norm) for norm in ("post", "pre"))
    assert isinstance(post.encoder_norm, nn.Identity)
    assert isinstance(pre.decoder_norm, nn.LayerNorm)
    counts = [sum(parameter.numel() for parameter in model.parameters()) for model in (post, pre)]
    assert counts[1] - counts[0] == 4 * TINY_PAIR["width"]


def test_a_decoder_block_is_three_residuals_and_dropout_is_the_papers():
    with torch.device("meta"):
        model = patchword.create("transformer-base")
    assert isinstance(model.decoder, Encoder)
    assert [name for name, _ in model.decoder.blocks[0].named_children()] == ["attention", "memory", "feed_forward"]
    block = model.decoder.blocks[5]
    assert [residual.dropout.p for residual in block.children()] == [0.1] * 3
    assert block.memory.sublayer.core.dropout == block.feed_forward.sublayer.dropout.p == 0
    assert model.source.dropout.p == 0.1
    assert patchword.create("transformer-big", depth=1, vocabulary=9).source.dropout.p == 0.3


def test_words_enter_with_variance_one():
    model = patchword.create("transformer-small", vocabulary=4000, depth=1, hidden=8)
    embedded = model.source.words.weight * model.source.scale
    assert abs(float(embedded.detach().var()) - 1) < 0.05


def test_a_pair_in_a_row_is_not_taken_for_a_padded_one():
    from patchword.core.text import Packed

    text = Text(torch.ones(1, 5, dtype=torch.int64), packed=Packed.of(torch.tensor([2, 3])))
    with pytest.raises(AssertionError, match="padded"):
        tiny_pair()(Pair(text, text))


# The paper's schedule


def test_the_rate_rises_and_falls_as_in_the_paper():
    rate = InverseRoot(512, 4000)
    for step in (1, 17, 3999, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert rate(step - 1) == pytest.approx(expected, rel=1e-12)
    assert max(range(10_000), key=rate) == 3999
    assert rate(3999) == pytest.approx((512 * 4000) ** -0.5)
    assert InverseRoot(512, 4000, factor=2.0)(99) == pytest.approx(2 * rate(99))
    assert InverseRoot(512, 0)(0) == pytest.approx(512**-0.5)
