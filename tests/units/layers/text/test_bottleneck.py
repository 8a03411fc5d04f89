"""MobileBERT's parts against what they stand for, written out."""

import pytest
import torch
import torch.nn.functional as F

import patchword
from patchword.analysis.cost import blocks_of, count
from patchword.core.scope import Scope
from patchword.core.text import Text
from patchword.layers import Attention, Bottleneck, BottleneckProjection, FeedForward, NoNorm, Norm, Residual
from patchword.layers.text.bottleneck import PartlyTied, Trigram
from support.helpers import difference, one_row, randomise, texts


def test_no_norm_is_a_factor_and_a_shift():
    norm = NoNorm(6)
    tokens = torch.randn(2, 3, 6)
    assert torch.equal(norm(tokens), tokens)  # at the start
    randomise(norm)
    assert difference(norm(tokens), tokens * norm.weight + norm.bias) < 1e-6


def test_a_bottleneck_is_its_equation():
    attention = Attention(8, 2, projection=BottleneckProjection(32, 8))
    inside = {
        "attention": Residual(attention, NoNorm(8), Norm.POST),
        "feed_forward": Residual(FeedForward(8, 16), NoNorm(8), Norm.POST),
    }
    block = randomise(Bottleneck(32, 8, NoNorm(32), inside)).eval()
    tokens = torch.randn(2, 5, 32)

    projection = attention.projection
    shared = projection.shared(tokens) * projection.shared_norm.weight + projection.shared_norm.bias
    query, key = projection.query_key(shared).chunk(2, -1)
    query, key, value = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in (query, key, projection.value(tokens)))
    read = ((query @ key.mT / 2).softmax(-1) @ value).transpose(1, 2).flatten(2)
    narrow = block.narrow_norm(block.narrow(tokens))
    narrow = inside["attention"].norm(narrow + attention.output(read))
    narrow = inside["feed_forward"].norm(narrow + inside["feed_forward"].sublayer(narrow, Scope()))
    expected = block.norm(tokens + block.widen(narrow))
    assert difference(block(tokens, Scope()), expected) < 1e-5


def by_hand(trigram: Trigram, words: torch.Tensor) -> torch.Tensor:
    """One text, (tokens, width of the words)."""
    zero = torch.zeros(words.shape[1])
    around = [zero, *words, zero]
    rows = [torch.cat([around[i + 2], around[i + 1], around[i]]) for i in range(len(words))]
    return F.linear(torch.stack(rows), trigram.mix.weight, trigram.mix.bias)


def test_neighbours_end_where_a_text_ends():
    """Whatever stands behind it in the batch, and whichever text lies beside it in a row."""
    trigram = randomise(Trigram(5, 7))
    batch = texts(4, 1, 6, 2)
    table = torch.randn(61, 5)
    expected = torch.cat(
        [by_hand(trigram, table[ids[there]]) for ids, there in zip(batch.ids, batch.mask, strict=True)]
    )
    assert difference(trigram(table[batch.ids], batch)[batch.mask], expected) < 1e-6
    row = one_row(batch)
    assert difference(trigram(table[row.ids], row)[0], expected) < 1e-6
    alone = Text(batch.ids[2:3])
    assert difference(trigram(table[alone.ids], alone)[0], by_hand(trigram, table[batch.ids[2]])) < 1e-6
    unheeded = trigram(table[batch.ids], batch._replace(mask=None))[batch.mask]
    assert difference(unheeded, expected) > 1e-2


@pytest.mark.parametrize("shift", [0, 1])
def test_words_are_scored_by_the_table_and_the_matrix_beside_it(shift):
    output = randomise(PartlyTied(11, 6))
    table, tokens = torch.randn(11, 2), torch.randn(3, 8)
    whole = torch.cat([table.T, output.extra.weight]).roll(shift, 0)
    expected = tokens @ whole + output.bias
    assert (difference(output(tokens, table), expected) < 1e-6) == (shift == 0)


def test_widths_that_are_not_told_are_a_quarter():
    model = patchword.create("mobilebert", width=64, depth=1, vocabulary=11)
    assert model.embedding.words.weight.shape == (11, 16)
    assert model.encoder.blocks[0].narrow.weight.shape == (16, 64)
    printed = patchword.create("mobilebert", width=64, depth=1, vocabulary=11, bottleneck=32, embedding=8)
    assert printed.embedding.words.weight.shape == (11, 8)
    assert printed.encoder.blocks[0].narrow.weight.shape == (32, 64)


def test_bottlenecks_are_the_blocks_whose_cost_is_told():
    with torch.device("meta"):
        card = patchword.create("mobilebert", depth=2).card
    assert blocks_of(card) == ["encoder.blocks.0", "encoder.blocks.1"]
    lines = {line.label: line.macs.value for line in count(card, "encoder.blocks.0").lines if line.macs}
    assert lines["bottleneck, in"] == lines["bottleneck, out"] == lines["value"] == 128 * 512 * 128
    assert lines["query, key"] == 128 * 128 * 256
