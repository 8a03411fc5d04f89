"""Which tokens of a text attend to which: every model's own attention has weights there, and nowhere else."""

import pytest
import torch

import patchword
from patchword.analysis.attention_pattern import by_part, text_patterns, text_receptive_fields
from patchword.analysis.attention_pattern.text import GLOBAL, RANDOM, WINDOW
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.text import Pair, Text
from patchword.layers import record_attention
from patchword.models import REGISTRY

pytestmark = pytest.mark.usefixtures("quick_meta")

TEXTS = [
    name
    for name in REGISTRY.names()
    if REGISTRY.reads(name) in ("texts", "pairs") and not name.startswith(("elmo", "over-vectors"))
]


def small(name, **fields):
    """A model with few weights, with its own heads, blocks of tokens and longest text."""
    config = vars(REGISTRY.find(name)[1].config)
    heads = config.get("heads", 2)
    width = (8 if "bottleneck" in config else 2) * heads  # a bottleneck is a quarter
    tiny = {"depth": min(config["depth"], 2), "width": width, "vocabulary": 7}
    tiny |= {"hidden": 4} if "hidden" in config else {}
    return Card(name, vars(REGISTRY.configure(name, {**tiny, **fields})))


def of(name, tokens=0, **fields):
    return text_patterns(small(name, **fields), tokens)


def weights(card, tokens):
    """(heads, tokens, keys) per layer: True where a model that has just been built has attention weights."""
    model = patchword.create(card.model, **card.config).eval()
    text = Text(torch.arange(tokens)[None] % 7)
    inputs = Pair(text, text) if REGISTRY.reads(card.model) == "pairs" else text
    with torch.no_grad(), record_attention(model) as maps:
        model(inputs)
    return [call.dense()[0] > 0 for call in maps]


def relation(pattern):
    """(tokens, keys), True where a token attends to a key."""
    wide = pattern.attends.repeat_interleave(pattern.unit, 0).repeat_interleave(pattern.unit, 1)
    return wide[: pattern.tokens, : pattern.keys]


def check(card, tokens):
    """Compare the patterns of a model with the weights of its own attention."""
    found = text_patterns(card, tokens)
    recorded = weights(card, tokens)
    order = [(part, layer) for part in {one.part: None for one in found} for layer in range(1, 1 + depth(found, part))]
    if {"decoder", "memory"} <= {one.part for one in found}:  # they run in turns
        own = [(part, layer) for layer in range(1, 1 + depth(found, "decoder")) for part in ("decoder", "memory")]
        order = [place for place in order if place[0] == "encoder"] + own
    assert len(order) == len(recorded)
    for (part, layer), seen in zip(order, recorded, strict=True):
        same = [one for one in found if one.part == part and layer in one.layers]
        assert sorted(head for one in same for head in one.heads) == list(range(1, 1 + len(seen)))
        for pattern in same:
            for head in pattern.heads:
                assert torch.equal(relation(pattern), seen[head - 1]), f"{part} {layer}, head {head}"
            assert pattern.pairs == int(seen[pattern.heads[0] - 1].sum())


def depth(found, part):
    return max(layer for one in found if one.part == part for layer in one.layers)


@pytest.mark.parametrize("name", TEXTS)
def test_tokens_attend_where_the_model_has_weights(name):
    check(small(name), 12)


@pytest.mark.parametrize(
    ("tokens", "fields"),
    [
        (1024, {}),  # a length of the paper
        (1100, {}),  # another length; the last block is not full
        (2048, {"depth": 1}),
        (704, {}),  # short enough for full attention
        (1024, {"random": "huggingface"}),
        (320, {"block": 16, "random_blocks": 2, "max_length": 512}),
    ],
)
def test_big_bird_attends_to_the_blocks_that_the_pattern_names(tokens, fields):
    check(small("bigbird-base", heads=3, width=6, **fields), tokens)


def test_the_kinds_of_big_birds_blocks_are_those_of_the_paper():
    found = of("bigbird-base", 1024)
    assert len(found) == 2 * 12
    for pattern in found:
        kinds, blocks = pattern.kinds, torch.arange(16)
        assert (pattern.unit, kinds.shape) == (64, (16, 16))
        ends = (blocks[:, None] % 15 == 0) | (blocks[None] % 15 == 0)
        assert torch.equal(kinds == GLOBAL, ends)
        near = (blocks[:, None] - blocks[None]).abs() <= 1
        assert torch.equal(kinds == WINDOW, near & ~ends)
        drawn = (kinds == RANDOM)[1:-1].sum(1)
        assert int(drawn.max()) == 3
        assert int(drawn.min()) >= 2  # of 1024 tokens the last block can be drawn, although it is global
    assert any(not torch.equal(found[0].kinds, other.kinds) for other in found[1:])


def test_big_bird_without_random_blocks_has_one_pattern():
    (pattern,) = of("bigbird-base", 1024, random="huggingface")
    assert not (pattern.kinds == RANDOM).any()
    assert (pattern.layers, pattern.heads) == ((1, 2), tuple(range(1, 13)))


def test_the_numbers_of_pairs_are_those_worked_out_by_hand():
    (causal,) = of("gpt2-small", 16)
    assert (causal.pairs, causal.computed, causal.all_pairs) == (16 * 17 // 2, 256, 256)
    (full,) = of("bert-tiny", 16)
    assert (full.pairs, full.computed) == (256, 256)
    (sparse,) = of("bigbird-base", 1024, random="huggingface", depth=1)
    # 2 global rows of 16 blocks; of 14 others, 12 attend to 2 + 3 blocks and 2, next to a global one, to 4
    assert sparse.pairs == (2 * 16 + 12 * 5 + 2 * 4) * 64 * 64
    assert sparse.computed == (2 * 16 + 14 * 8) * 64 * 64
    (cut,) = of("bigbird-base", 1000, random="huggingface", depth=1)
    assert cut.pairs < sparse.pairs
    assert cut.computed == sparse.computed


def test_a_translator_has_three_parts():
    encoder, decoder, memory = of("transformer-small", 6)
    assert [one.part for one in (encoder, decoder, memory)] == ["encoder", "decoder", "memory"]
    assert (encoder.is_causal, decoder.is_causal, memory.is_causal) == (False, True, False)
    assert [len(part) for part in by_part([encoder, decoder, memory])] == [1, 1, 1]
    (look,) = of("lstm-translation-small", 6)
    assert (look.part, look.pairs) == ("memory", 36)


def test_a_receptive_field_grows_layer_by_layer():
    found = of("bigbird-base", 2048, heads=1, width=2, depth=3, random="huggingface")
    first, second, third = text_receptive_fields(found, 9)
    assert first.nonzero().flatten().tolist() == [0, 8, 9, 10, 31]
    assert bool(second.all())  # through the global blocks
    assert bool(third.all())
    steps = text_receptive_fields(of("gpt", 8), 3)
    assert [step.nonzero().flatten().tolist() for step in steps] == 2 * [[0, 1, 2, 3]]


def test_a_receptive_field_is_the_product_of_the_layers():
    found = of("bigbird-base", 4096, heads=1, width=2)
    first, second = (one.attends.float() for one in found)
    steps = text_receptive_fields(found, 20)
    assert torch.equal(steps[0], first[20] > 0)
    assert torch.equal(steps[1], second[20] @ first > 0)
    assert int(steps[0].sum()) < int(steps[1].sum()) == 64


def test_models_without_such_attention_are_refused():
    for name, word in (("elmo-small", "no attention"), ("over-vectors", "no attention"), ("vit-exercise", "images")):
        with pytest.raises(UserError, match=word):
            text_patterns(Card(name, vars(REGISTRY.configure(name, {}))))
    with pytest.raises(UserError, match="no attention"):
        of("lstm-translation-small", attention="none")
    with pytest.raises(UserError, match="512"):
        of("bert-tiny", 513)
    with pytest.raises(UserError, match="too large"):
        of("bert-tiny", 2001, max_length=4096)
