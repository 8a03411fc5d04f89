"""The cost JSON: the numbers of `count`, with formulas; fields within bounds."""

import json
import threading
import time

import pytest

from patchword.analysis.cost import block_of, count
from patchword.core.card import Card
from patchword.lab.costs import SavedCosts, cost_json
from patchword.lab.field_limits import LARGEST, check_tokens, read_fields
from patchword.models import REGISTRY


def card_of(model: str, **fields: object) -> Card:
    return Card(model, vars(REGISTRY.configure(model, fields)))


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("vit-exercise", {}),
        ("vit-exercise", {"width": 96, "depth": 7, "heads": 6, "patch": 2, "image": 32, "mlp_ratio": 3}),
        ("vit-base-16", {"image": 384}),
        ("swin-tiny", {"window": 5, "depths": [1, 1, 3, 1]}),
        ("bert-tiny", {"max_length": 64, "hidden": 100}),
        ("resnet-50", {}),
    ],
)
def test_the_numbers_are_those_of_count(call, model, fields):
    query = "".join(f"&{name}={str(value).replace(' ', '')}" for name, value in fields.items())
    found = call(f"/api/cost?model={model}{query}").json()
    card = card_of(model, **fields)
    whole, block = count(card), count(card, block_of(card, 1))
    assert found["fields"] == json.loads(json.dumps(card.config))
    assert found["macs"]["total"] == whole.macs
    assert found["parameters"] == whole.parameters
    assert {**json.loads(json.dumps(whole.to_json())), "block": found["block"]}.items() <= found.items()
    assert found["block"] == json.loads(json.dumps(block.to_json()))
    assert sum(step.get("macs", {"value": 0})["value"] for step in found["steps"]) == whole.macs


def test_the_formulas_have_letters_and_numbers(call):
    found = call("/api/cost?model=vit-exercise&width=64").json()
    step = next(one for one in found["block"]["steps"] if one["label"] == "query, key, value")
    assert step["macs"]["formula"] == "3 x N x D x D"
    assert step["macs"]["symbols"] == {"N": 50, "D": 64}
    sizes = {one["symbol"]: one for one in found["sizes"]}
    assert sizes["N"]["formula"] == "(H_0 / P) x (W_0 / P) + 1"
    assert sizes["d"]["formula"] == "D / h"
    assert found["mlp_ratio"] == 4


def test_the_published_counts_pass(call):
    for row in call("/api/registry").json()["models"]:
        if row["name"] in ("vit-tiny-16", "swin-tiny", "bert-tiny"):
            found = call(f"/api/cost?model={row['name']}").json()
            assert (found["macs"]["total"], found["parameters"]) == (row["macs"], row["parameters"])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("width=1000000000", "width"),
        ("width=1e9", "width"),
        ("width=1e999", "width"),
        ("width=-64", "width"),
        ("width=0", "width"),
        ("width=.nan", "width"),
        ("width=" + "9" * 5000, "width"),
        ("width=" + "[" * 90, "width"),
        ("width=%26a [*a]", "width"),
        ("width={a: b}", "width"),
        ("width=!!python/object:os.system", "width"),
        ("width=2001-99-99", "width"),
        ("width=65", ""),  # not divisible by the heads
        ("width=64&width=65", "width"),
        ("depth=1000000", "depth"),
        ("image=100000", "image"),
        ("image=[99999,1]", "image"),
        ("classes=99999999999", "classes"),
        ("heads=99999999", "heads"),
        ("patch=0", "patch"),
        ("mlp_ratio=1e12", "mlp_ratio"),
        ("position=<script>", "position"),
        ("__class__=1", "__class__"),
        ("nothing=1", "nothing"),
        ("a" * 5000 + "=1", "aaaa"),
    ],
)
def test_hostile_fields_are_refused_fast(call, query, field):
    start = time.monotonic()
    found = call(f"/api/cost?model=vit-exercise&{query}")
    assert time.monotonic() - start < 1
    error = found.json()["error"]
    assert (found.status, error.keys()) == (422, {"what", "expected", "got", "hint"})
    assert field in error["what"]
    assert len(found.body) < 2000


@pytest.mark.parametrize(
    ("model", "query"),
    [
        ("swin-tiny", "depths=[30,30,30,30]"),
        ("vit-tiny-16", "image=2048&patch=1"),
        ("lstm-translation-small", "depth=9"),
        ("mobilebert", "feed_forwards=100"),
        ("elmo-small", "highways=100"),
        ("bigbird-base", "block=1"),
        ("bert-base", "max_length=1000000"),
    ],
)
def test_sizes_that_take_long_are_refused(call, model, query):
    found = call(f"/api/cost?model={model}&{query}")
    assert found.status == 422
    assert "in the lab" in found.json()["error"]["expected"]


def test_an_unknown_model_is_not_found(call):
    found = call("/api/cost?model=vit-bse-16")
    assert found.status == 404
    assert "vit-base-16" in found.json()["error"]["hint"]
    assert call("/api/cost").status == 422
    assert call("/api/cost?model=vit-exercise&model=vit-base-16").status == 422
    assert call("/api/cost?model=../../etc/passwd").status == 404


@pytest.mark.parametrize("model", REGISTRY.names())
def test_the_bounds_admit_every_model_of_the_registry(model):
    config = vars(REGISTRY.find(model)[1].config)
    pairs = [
        (name, str(value).replace("(", "[").replace(",)", "]").replace(")", "]")) for name, value in config.items()
    ]
    numbers = [(name, text) for name, text in pairs if isinstance(config[name], int | tuple)]
    assert dict(numbers).keys() == read_fields(numbers, config).keys()
    check_tokens(config)


def test_a_bound_is_a_bound():
    assert read_fields([("width", str(LARGEST))], {"width": 1, "heads": 1}) == {"width": LARGEST}
    with pytest.raises(ValueError, match="at most 16,384 in the lab"):
        read_fields([("width", str(LARGEST + 1))], {"width": 1, "heads": 1})


def test_answers_are_kept_for_the_last_requests(monkeypatch):
    counted = []
    monkeypatch.setattr("patchword.lab.costs.MOST_SAVED", 2)
    monkeypatch.setattr("patchword.lab.costs.cost_json", lambda model, pairs: counted.append(model) or {})
    saved = SavedCosts()
    for model in ("a", "b", "a", "c", "a", "b"):
        saved.start(model, [("x", "1"), ("y", "2")]).result()
    assert counted == ["a", "b", "c", "b"]
    saved.start("b", [("y", "2"), ("x", "1")]).result()
    assert counted == ["a", "b", "c", "b"]


def test_the_whole_has_the_block_of_the_first_stage():
    assert cost_json("swin-tiny")["block"]["part"] == "stages.0.encoder.blocks.0"
    assert cost_json("elmo-small")["block"] is None


def test_counts_that_have_not_begun_are_dropped_at_the_end(monkeypatch):
    begun, ended = threading.Event(), threading.Event()
    monkeypatch.setattr("patchword.lab.costs.cost_json", lambda model, pairs: begun.set() or (ended.wait(5) and {}))
    saved = SavedCosts()
    first, second = saved.start("a"), saved.start("b")
    assert begun.wait(5)
    saved.close()
    ended.set()
    assert first.result(5) == b"{}"
    assert second.cancelled()


def test_requests_beyond_the_queue_are_refused(call, monkeypatch):
    monkeypatch.setattr("patchword.lab.routes.cost.MOST_WAITING", 0)
    found = call("/api/cost?model=vit-exercise")
    assert (found.status, found.headers["retry-after"]) == (429, "1")
