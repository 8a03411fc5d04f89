"""The routes of the page Words: the numbers of the Python API, bounds on texts, errors in words."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load

import patchword
from patchword.lab.models import list_models
from patchword.recipes.text.inference.next_words import next_words
from patchword.recipes.text.inference.reader import Reader
from patchword.weights.local_path import local_path
from support.lab.page import caller
from support.lab.tuned import write_tuned

TEXT = "The old man sat by the fire <script>alert(1)</script>."


def post(call: Any, path: str, **fields: object) -> Any:
    return call(path, "POST", {"content-type": "application/json"}, [json.dumps(fields).encode()])


def arrays(found: Any, folder: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    (folder / "found.safetensors").write_bytes(found.body)
    with safe_open(folder / "found.safetensors", "pt") as file:
        return json.loads(file.metadata()["about"]), load(found.body)


def reader(name: str) -> Reader:
    return patchword.pipeline(name, device="cpu", precision="float32").engine.reader


@pytest.fixture(scope="module")
def tuned(page, tmp_path_factory) -> Any:
    """A caller of a lab with tiny fine-tuned models: one that tags, one that answers and one that classifies."""
    folder = tmp_path_factory.mktemp("tuned")
    folders = write_tuned(folder)
    return folder, caller(page, list_models(map(str, folders)))


def test_what_each_model_can_do(call, tuned):
    can = {one["id"]: one["can"] for one in call("/api/words").json()["models"]}
    assert can == {
        "bert-mini": ["attention", "walk", "similar", "fill"],
        "gpt-mini": ["attention", "walk", "similar", "next"],
        "elmo-mini": ["similar"],
    }
    own = {one["id"]: one["can"][-1] for one in tuned[1]("/api/words").json()["models"]}
    assert {"tags": "tags", "span": "answer", "classes": "classes"}.items() <= own.items()


@pytest.mark.parametrize("model", ["bert-mini", "gpt-mini"])
def test_attention_is_that_of_the_pipeline(call, tmp_path, model):
    about, weights = arrays(post(call, f"/api/words/{model}/attention", text=TEXT), tmp_path)
    exact = patchword.pipeline(f"zoo:{model}", device="cpu", precision="float32").attention(TEXT)
    assert [token["name"] for token in about["tokens"]] == list(exact.tokens)
    assert [token["special"] for token in about["tokens"]] == list(exact.found.special)
    assert about["causal"] is (model == "gpt-mini")
    assert (about["layers"], about["heads"]) == (4, 4)
    for number, one in zip(exact.layers, exact.maps, strict=True):
        assert (weights[f"layer {number}"] - torch.tensor(one)).abs().max() < 1e-5
    places = [(token["start"], token["end"]) for token in about["tokens"] if not token["special"]]
    assert "".join(TEXT[start:end].strip() for start, end in places) == TEXT.replace(" ", "")


def test_masks_are_filled_as_by_the_pipeline(call):
    found = post(call, "/api/words/bert-mini/fill", text="The [MASK] sat by the fire.", places=[[22, 26]], top=6).json()
    exact = patchword.pipeline("zoo:bert-mini", device="cpu", precision="float32").fill(found["text"], top=6)
    assert found["text"] == "The [MASK] sat by the [MASK]."
    assert found["filled"] == exact.filled
    for gap, own in zip(found["gaps"], exact, strict=True):
        assert (gap["start"], gap["end"]) == (own.start, own.end)
        for one, other in zip(gap["fillings"], own.fillings, strict=True):
            assert one["word"] == other.word
            assert one["probability"] == pytest.approx(other.probability, abs=1e-5)


@pytest.mark.parametrize("text", ["The old man sat by the", "The old man sat by the ", ""])
def test_next_words_are_those_of_the_model(call, text):
    found = post(call, "/api/words/gpt-mini/next", text=text, top=5).json()["words"]
    opened = reader("zoo:gpt-mini")
    tokenizer = opened.tokenizer
    ids = [*tokenizer.frame.before, *tokenizer.encode([text.strip()])[0].ids.tolist()]
    with torch.no_grad():
        logits = opened.model(torch.tensor([ids])).flatten(0, -2)[-1]
    expected = logits.softmax(-1)
    best = [number for number in expected.argsort(descending=True).tolist() if number not in tokenizer.specials][:5]
    assert [one["probability"] for one in found] == pytest.approx(expected[best].tolist(), abs=1e-5)
    assert [one["word"].removeprefix("##") for one in found] == [one.strip() for one in tokenizer.written(best)]
    assert [one["word"] for one in found] == [one.word for one in next_words(opened, text, 5)]


@pytest.mark.parametrize("model", ["bert-mini", "elmo-mini"])
def test_similarity_of_a_word_in_every_layer(call, model):
    sentences = ["He left the house.", "His left hand was cold.", "Nothing here."]
    found = post(call, f"/api/words/{model}/similar", word="left", sentences=sentences).json()
    assert [use["start"] for use in found["uses"]] == [3, 4]
    assert found["left_out"] == 1
    assert list(found["layers"]) == [str(layer) for layer in range({"bert-mini": 5, "elmo-mini": 3}[model])]
    last = found["layers"][max(found["layers"])]
    assert last[0][0] == pytest.approx(1, abs=1e-5)
    assert last[0][1] == last[1][0] < 0.9


def test_the_walk_of_a_token(call, tmp_path):
    about, found = arrays(post(call, "/api/words/gpt-mini/walk", text="The old man.", token=2, layer=3), tmp_path)
    assert [token["word"] for token in about["tokens"]] == ["<s>", "The", "old", "man", ".", "</s>"]
    assert (about["token"], about["layer"], about["layers"], about["heads"]) == (2, 3, 4, 4)
    assert about["parts"] == ["words", "positions"]
    assert about["norms"] == ["x + f(norm(x))"] * 2
    assert found["attention scores"][:, 3:].isneginf().all()
    sums = torch.einsum("ht,htd->hd", found["attention weights"], found["attention values"])
    assert (sums - found["attention sums"]).abs().max() < 1e-5
    exact = patchword.pipeline("zoo:gpt-mini", device="cpu", precision="float32").attention("The old man.")
    assert (found["attention weights"] - torch.tensor(exact.maps[2][:, 2])).abs().max() < 1e-5
    assert found["norms"].shape == (9,)


def test_tags_answers_and_classes(tuned):
    folder, call = tuned
    text = "The cat sat <b> on the mat."
    exact = patchword.pipeline(folder / "tags").tag(text)[0]
    found = post(call, "/api/words/tags/tags", text=text).json()
    assert [(one["word"], one["tag"], one["start"]) for one in found["words"]] == [
        (one.word, one.tag, one.start) for one in exact.words
    ]
    assert found["spans"] == [one._asdict() for one in exact.spans]
    found = post(call, "/api/words/span/answer", text=text, question="Who sat?").json()
    exact = patchword.pipeline(folder / "span").answer("Who sat?", text, top=5)
    assert found["answer"] == exact.answer
    assert [one["probability"] for one in found["answers"]] == pytest.approx([one.probability for one in exact.answers])
    found = post(call, "/api/words/classes/classes", text=text).json()
    assert [name for name, _ in found["classes"]] == [
        name for name, _ in patchword.pipeline(folder / "classes")(text)[0].classes
    ]
    assert sum(share for _, share in found["classes"]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("path", "fields", "status", "message"),
    [
        ("bert-mini/attention", {"text": ""}, 422, "the text is empty"),
        ("bert-mini/attention", {"text": "a " * 1_001}, 422, "the text is too long"),
        ("bert-mini/attention", {"text": "a. " * 600}, 422, "tokens"),
        ("bert-mini/attention", {"text": 1}, 422, "cannot be read: text"),
        ("bert-mini/attention", {"text": "a", "file": "/etc/passwd"}, 422, "cannot be read: file"),
        ("no-model/attention", {"text": "a"}, 404, "no model"),
        ("elmo-mini/attention", {"text": "a"}, 422, "no attention"),
        ("vit-exercise/attention", {"text": "a"}, 422, "no attention"),
        ("bert-mini/fill", {"text": "no mask"}, 422, "there is no [MASK]"),
        ("bert-mini/fill", {"text": "a b", "places": [[0, 9]]}, 422, "the places to mask"),
        ("bert-mini/fill", {"text": "a b", "places": [[0, 2], [1, 3]]}, 422, "the places to mask"),
        ("bert-mini/fill", {"text": "[MASK]", "top": 21}, 422, "cannot be read: top"),
        ("gpt-mini/fill", {"text": "[MASK]"}, 422, "cannot fill masks"),
        ("bert-mini/next", {"text": "The"}, 422, "cannot generate text"),
        ("bert-mini/similar", {"word": "a", "sentences": ["a"]}, 422, "the number of sentences"),
        ("bert-mini/similar", {"word": "a", "sentences": ["a"] * 13}, 422, "the number of sentences"),
        ("bert-mini/similar", {"word": "zebra", "sentences": ["a", "b"]}, 422, "was found nowhere"),
        ("bert-mini/similar", {"word": "two words", "sentences": ["a", "b"]}, 422, "cannot search"),
        ("bert-mini/walk", {"text": "The man.", "token": 9}, 422, "there is no token 9"),
        ("bert-mini/walk", {"text": "The man.", "layer": 9}, 422, "there is no layer 9"),
        ("bert-mini/tags", {"text": "The man."}, 422, "cannot tag words"),
        ("bert-mini/answer", {"text": "The man.", "question": "Who?"}, 422, "cannot answer questions"),
        ("bert-mini/classes", {"text": "The man."}, 422, "cannot predict"),
    ],
)
def test_errors_are_explained(call, path, fields, status, message):
    found = post(call, f"/api/words/{path}", **fields)
    assert found.status == status
    error = found.json()["error"]
    assert message in " ".join(map(str, error.values()))
    assert error["expected"] or error["hint"]


def test_attention_is_read_only_by_post(call):
    assert call("/api/words/bert-mini/attention").status == 405
    assert post(call, "/api/words", text="a").status == 405


@pytest.mark.parametrize("verb", ["classes", "tags", "fill", "next", "attention", "walk"])
def test_a_text_is_no_path_of_an_image(call, verb):
    image = next(local_path("zoo:vit-exercise").glob("sample/**/*.png"))
    found = post(call, f"/api/words/vit-exercise/{verb}", text=str(image))
    assert found.status == 422
    assert post(call, f"/api/words/vit-exercise/{verb}", text="x" * 2000).json() == found.json()


def test_numbers_that_are_not_finite_are_an_error_in_words(call, monkeypatch):
    monkeypatch.setattr("patchword.lab.routes.words.continued", lambda pipeline, asked: {"probability": float("nan")})
    found = post(call, "/api/words/gpt-mini/next", text="The")
    assert found.status == 422
    assert found.json()["error"]["what"] == "the answer has numbers that are not finite"
