"""The route of the page Windows: every model's groups are those of the library, and the counts are those of `count`."""

import json

import pytest
import torch

from patchword.analysis.attention_pattern import (
    attention_patterns,
    block_receptive_fields,
    by_stage,
)
from patchword.analysis.cost import blocks_of, count
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.lab.windows.patterns import patterns_json
from patchword.lab.windows.request import card_of, sides_of
from patchword.models import REGISTRY

pytestmark = pytest.mark.usefixtures("quick_meta")

IMAGES = [name for name in REGISTRY.names() if REGISTRY.reads_images(name)]
ATTENDING = [name for name in IMAGES if not name.startswith(("mixer", "resnet", "regnet"))]


def small(name):
    """A model of few tokens and one pair of blocks per stage, with the model's own kinds of groups."""
    config = vars(REGISTRY.find(name)[1].config)
    fields = {"image": 8 * config["patch"] if "depth" in config else min(config["image"], 96)}
    if "depths" in config:
        fields["depths"] = tuple(min(depth, 2) for depth in config["depths"])
    else:
        fields["depth"] = 2
    if "widths" in config:
        fields["widths"] = tuple(8 * heads for heads in config["heads"])
    return Card(name, vars(REGISTRY.configure(name, fields)))


def decoded(stage, pattern):
    """The keys of every token, (tokens, keys), from the JSON alone."""
    tokens = stage["tokens"]
    keys = pattern["key_leading"] + pattern["key_grid"][0] * pattern["key_grid"][1]
    if pattern["key_rows"] is not None:
        return torch.ones(tokens, keys, dtype=torch.bool)
    members = torch.tensor(pattern["members"] if pattern["members"] is not None else list(range(tokens)))
    groups = torch.arange(len(members)) // pattern["group_size"]
    regions = torch.tensor(pattern["regions"] or [0] * len(members))
    real = members >= 0
    labels = torch.empty(tokens, dtype=torch.long)
    labels[members[real]] = (groups * 16 + regions)[real]
    return labels[:, None] == labels[None]


def relation(pattern):
    """(tokens, keys): which tokens attend to which, from the model's own groups and masks."""
    found = torch.zeros(pattern.grid.tokens, pattern.key_grid.tokens, dtype=torch.bool)
    for group, (queries, keys) in enumerate(zip(pattern.queries, pattern.keys, strict=True)):
        allowed = (queries >= 0)[:, None] & (keys >= 0)[None]
        if pattern.mask is not None:
            allowed &= pattern.mask[group]
        rows, columns = allowed.nonzero().T
        found[queries[rows], keys[columns]] = True
    return found


def compare(card):
    answer = json.loads(json.dumps(patterns_json(card)))
    found = by_stage(attention_patterns(card))
    assert len(answer["stages"]) == len(found)
    for stage, patterns in zip(answer["stages"], found, strict=True):
        assert len(stage["patterns"]) == len(patterns)
        for sent, pattern in zip(stage["patterns"], patterns, strict=True):
            assert torch.equal(decoded(stage, sent), relation(pattern))
            places, padded = pattern.places
            assert sent["padded"] == [padded.height, padded.width]
            assert (sent["places"] or places.flatten().tolist()) == places.flatten().tolist()
        for number, block in enumerate(stage["blocks"], 1):
            assert [stage["patterns"][index]["head_group"] for index in block["patterns"]] == [
                pattern.head_group for pattern in patterns if number in pattern.blocks
            ]
            assert all(number in stage["patterns"][index]["blocks"] for index in block["patterns"])
        token = stage["receptive_field"]["token"]
        steps = block_receptive_fields(patterns, token)
        assert stage["receptive_field"]["tokens"] == [int(step.sum()) for step in steps]
    return answer


@pytest.mark.parametrize("name", ATTENDING)
def test_the_groups_are_those_of_the_model(name):
    compare(small(name))


@pytest.mark.parametrize("name", ["swin-tiny", "cswin-tiny", "pale-tiny", "swin-mini", "vit-exercise", "cvt-mini"])
def test_the_groups_are_those_of_the_model_as_it_is(name):
    compare(card_of({}, name, ""))


@pytest.mark.parametrize(("name", "image"), [("swin-mini", "44"), ("pale-mini", "20"), ("swin-mini", "32")])
def test_padded_groups_are_those_of_the_model(name, image):
    card = card_of({}, name, image)
    answer = compare(card)
    assert any(-1 in (pattern["members"] or []) for stage in answer["stages"] for pattern in stage["patterns"])


def test_a_shift_rolls_the_map_to_whole_windows():
    for image in ("", "44"):
        answer = patterns_json(card_of({}, "swin-mini", image))
        pattern = answer["stages"][0]["patterns"][1]
        assert pattern["shift"] == [3, 3]
        height, width = pattern["padded"]
        slots = torch.arange(height * width).reshape(height // 7, width // 7, 7, 7).transpose(1, 2)
        rolled = slots.reshape(height, width).roll((3, 3), (0, 1)).flatten()
        places = pattern["places"] or pattern["members"]
        assert torch.equal(torch.tensor(places)[rolled], torch.arange(height * width))


@pytest.mark.parametrize("name", ["swin-mini", "cswin-mini", "pale-mini", "pvt-mini", "cvt-mini", "vit-exercise"])
def test_the_macs_are_those_of_count(call, name):
    answer = call(f"/api/windows?model={name}").json()
    card = card_of({}, name, "")
    sent = [block for stage in answer["stages"] for block in stage["blocks"]]
    for block, part in zip(sent, blocks_of(card), strict=True):
        cost = count(card, part)
        products = [line.macs.value for line in cost.lines if line.label.startswith(("query x key", "weights x value"))]
        assert (block["attention_macs"], block["block_macs"]) == (sum(products), cost.macs)


def test_global_attention_costs_what_a_model_with_it_has():
    whole = patterns_json(Card("swin-mini", vars(REGISTRY.configure("swin-mini", {"window": 14}))))["stages"][0]
    windows = patterns_json(card_of({}, "swin-mini", ""))["stages"][0]
    assert windows["blocks"][0]["global_macs"] == whole["blocks"][0]["attention_macs"]
    assert windows["blocks"][0]["attention_macs"] * 4 == whole["blocks"][0]["attention_macs"]


def test_a_model_of_the_lab_is_asked_by_its_id(call):
    found, own = call("/api/windows?model=lab:swin-mini").json(), call("/api/windows?model=swin-mini").json()
    assert found["stages"] == own["stages"]
    assert call("/api/windows?model=swin-mini&image=44").json()["image"] == [44, 44]
    assert call("/api/windows?model=lab:no-such").status == 404


@pytest.mark.parametrize(
    ("query", "status", "word"),
    [
        ("model=swin-tin", 404, "swin-tiny"),
        ("model=../../etc/passwd", 404, "no model"),
        ("model=" + "a" * 5000, 404, "no model"),
        ("model=resnet-18", 422, "no attention"),
        ("model=mixer-mini", 422, "no attention"),
        ("model=swin-mini&image=29", 422, "28"),
        ("model=swin-mini&image=99999999999", 422, "28"),
        ("model=swin-mini&image=-1", 422, "28"),
        ("model=swin-mini&depth=3", 422, "model=NAME"),
        ("model=swin-mini&model=vit-exercise", 422, "model=NAME"),
        ("", 422, "model=NAME"),
    ],
)
def test_what_cannot_be_answered_is_explained(call, query, status, word):
    found = call(f"/api/windows?{query}")
    assert found.status == status
    assert word in json.dumps(found.json()["error"])
    assert len(found.body) < 2000


@pytest.mark.parametrize("name", IMAGES)
def test_the_offered_sides_are_bounded_and_cut_into_patches(name):
    card = Card(name, vars(REGISTRY.configure(name, {}))) if name in ATTENDING else None
    if card is None:
        with pytest.raises(UserError):
            patterns_json(card_of({}, name, ""))
        return
    offered = sides_of(card)
    assert card.config["image"] in offered
    assert max(offered) <= 384
    assert all(side % card.config["patch"] == 0 for side in offered)


def test_answers_are_kept(call, monkeypatch):
    assert call("/api/windows?model=deit-mini").status == 200
    monkeypatch.setattr("patchword.lab.routes.windows.patterns_json", lambda card: pytest.fail("computed again"))
    assert call("/api/windows?model=deit-mini").status == 200


def test_requests_beyond_the_queue_are_refused(call, monkeypatch):
    monkeypatch.setattr("patchword.lab.opened.MOST_WAITING", 0)
    assert call("/api/windows?model=cswin-mini").status == 429
