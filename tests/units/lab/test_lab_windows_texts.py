"""The route of the page Windows for models of texts: pairs as in the library, counts as in `count`."""

import json

import pytest
import torch

from patchword.analysis.attention_pattern import by_part, text_patterns, text_receptive_fields
from patchword.analysis.cost import count
from patchword.analysis.cost.count import text_of
from patchword.core.card import Card
from patchword.lab.windows.request import lengths_of, own_card, tokens_of
from patchword.lab.windows.text_patterns import text_patterns_json
from patchword.models import REGISTRY

pytestmark = pytest.mark.usefixtures("quick_meta")

TEXTS = [name for name in REGISTRY.names() if REGISTRY.reads(name) in ("texts", "pairs")]


def small(name):
    """A model with the heads, the blocks of tokens and the longest text of this one, and few weights."""
    config = vars(REGISTRY.find(name)[1].config)
    width = (8 if "bottleneck" in config else 2) * config.get("heads", 2)
    fields = {"depth": min(config["depth"], 2), "width": width, "vocabulary": 7}
    return Card(name, vars(REGISTRY.configure(name, fields)))


def sent(card, tokens):
    return json.loads(json.dumps(text_patterns_json(card, tokens, lengths_of(card))))


@pytest.mark.parametrize("name", TEXTS)
def test_the_pairs_are_those_of_the_library(name):
    card = small(name)
    for tokens in (tokens_of(card, ""), lengths_of(card)[0]):
        answer = sent(card, tokens)
        assert tokens in answer["lengths"]
        found = by_part(text_patterns(card, tokens))
        assert [part["name"] for part in answer["parts"]] == [part[0].part for part in found]
        for part, patterns in zip(answer["parts"], found, strict=True):
            for own, pattern in zip(part["patterns"], patterns, strict=True):
                kinds = torch.tensor([int(digit) for digit in own["pair_kinds"]]).view(part["rows"], part["columns"])
                assert torch.equal(kinds, pattern.kinds.long())
                assert (own["layers"], own["heads"]) == (list(pattern.layers), list(pattern.heads))
            for number, layer in enumerate(part["layers"], 1):
                assert layer["patterns"] == [at for at, one in enumerate(patterns) if number in one.layers]
            field = part["receptive_field"]
            expected = [] if part["name"] == "memory" else text_receptive_fields(patterns, field["row"])
            assert field["columns"] == [int(step.sum()) for step in expected]


@pytest.mark.parametrize("name", TEXTS)
def test_the_macs_are_those_of_count(name):
    card = small(name)
    tokens = tokens_of(card, "")
    answer = sent(card, tokens)
    macs = [layer["attention_macs"] for part in answer["parts"] for layer in part["layers"]]
    assert sum(macs) == count(card, inputs=text_of(card, tokens)).macs_of("attention")
    for part in answer["parts"]:
        for layer in part["layers"]:
            assert layer["attention_macs"] <= layer["global_macs"]


def test_big_bird_costs_less_than_global_attention_by_the_numbers_of_its_blocks():
    (part,) = sent(small("bigbird-base"), 4096)["parts"]
    layer = part["layers"][0]
    assert layer["attention_macs"] * 64 * 64 == layer["global_macs"] * (2 * 64 + 62 * 8)


def test_the_offered_lengths_are_read_by_the_model():
    assert lengths_of(own_card({}, "bigbird-base")) == [704, 768, 1024, 1536, 2048, 3072, 4096]
    for name in TEXTS:
        card = own_card({}, name)
        assert tokens_of(card, "") in lengths_of(card)
        assert max(lengths_of(card)) <= card.config.get("max_length", 128)
        assert len(lengths_of(card)) <= 11


def test_a_model_of_the_lab_is_asked_by_its_id(call):
    found = call("/api/windows?model=lab:bert-mini&tokens=8").json()
    assert (found["model"], found["tokens"]) == ("bert-mini", 8)
    assert found["parts"][0]["patterns"][0]["pair_kinds"] == 64 * "1"
    assert call("/api/windows?model=lab:gpt-mini").json()["parts"][0]["patterns"][0]["density"] == 17 / 32


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("model=bert-tiny&tokens=15", "12, 16"),
        ("model=bert-tiny&tokens=512", "128"),
        ("model=bert-tiny&tokens=-8", "one of"),
        ("model=bert-tiny&tokens=99999999999", "one of"),
        ("model=bert-tiny&image=28", "reads texts"),
        ("model=swin-mini&tokens=16", "reads images"),
        ("model=elmo-small", "no attention"),
        ("model=over-vectors", "no attention"),
        ("model=bert-tiny&tokens=8&tokens=8", "model=NAME"),
    ],
)
def test_what_cannot_be_answered_is_explained(call, query, word):
    found = call(f"/api/windows?{query}")
    assert found.status == 422
    assert word in json.dumps(found.json()["error"])
    assert len(found.body) < 2000
