"""The routes of the page Translate: equal to the Python API, limits, errors."""

import json
import math

import pytest

import patchword
from patchword.lab.models import list_models
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.translation.search import Search
from support.lab.page import caller
from support.tiny.translators import tiny_translator

SENTENCE = "A man in a blue shirt is standing on a ladder cleaning a window."
ZOO = "translator-en-de"


def ask(call, path="/api/translate", **fields):
    body = json.dumps({"model": ZOO, "text": SENTENCE, **fields}).encode()
    return call(path, "POST", {"content-type": "application/json"}, [body])


@pytest.fixture(scope="module")
def zoo():
    return patchword.pipeline(f"zoo:{ZOO}", device="cpu")


def source_of(zoo, text=SENTENCE):
    return zoo.translator.sources([TextInput(text, place={})])


def test_the_translators_are_listed(call):
    assert [one["id"] for one in call("/api/translators").json()["models"]] == [ZOO]


@pytest.mark.parametrize(("beams", "penalty"), [(1, 0.6), (4, 0.0), (4, 0.6)])
def test_a_translation_is_that_of_the_python_interface(call, zoo, beams, penalty):
    found = ask(call, beams=beams, penalty=penalty).json()
    assert found["texts"][0]["text"] == zoo.translate(SENTENCE, beams=beams, penalty=penalty)[0]
    assert found["pieces"][:3] == ["A", "man", "in"]
    assert len(found["best"]) == len(found["steps"])
    path = [candidates[index] for candidates, index in zip(found["steps"], found["best"], strict=True)]
    assert path[-1]["end"]
    assert path[-1]["score"] == pytest.approx(found["texts"][0]["score"], abs=1e-6)
    text, expected = zoo.translator.alignment(source_of(zoo), Search(beams, penalty))
    attention = found["attention"]
    assert (text, attention["best"] + 1) == (found["texts"][0]["text"], expected.layer)
    assert (attention["read"], attention["written"]) == (list(expected.read), list(expected.written))
    for line, weights in zip(attention["weights"][attention["best"]], expected.weights.tolist(), strict=True):
        assert line == pytest.approx(weights, abs=1e-6)


def test_a_translation_goes_on_from_another_word(call, zoo):
    start = [one["id"] for one in ask(call).json()["steps"][0]][1:2]
    found = ask(call, start=start).json()
    assert [one["id"] for one in found["prefix"]] == start
    expected = zoo.translator.trace(source_of(zoo), Search(5, 0.6), start)
    assert [[one["score"] for one in step] for step in found["steps"]] == [
        [one.score for one in step] for step in expected.steps
    ]
    assert found["texts"][0]["text"].startswith(found["prefix"][0]["piece"])


def test_the_next_words_are_those_of_the_python_interface(call, zoo):
    start = list(zoo.translator.trace(source_of(zoo), Search(2)).tokens[:6])
    found = ask(call, "/api/translate/next", start=start, top=7).json()
    expected = zoo.translator.next_tokens(source_of(zoo), start, 7)
    assert [one["id"] for one in found["words"]] == [token for token, _ in expected]
    chances = [math.exp(score) for _, score in expected]
    assert [one["probability"] for one in found["words"]] == pytest.approx(chances, rel=1e-6)
    assert found["start"] == "Ein Mann in einem blauen Hemd"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"model": "nothing"}, 404),
        ({"model": "bert-mini"}, 422),
        ({"text": ""}, 422),
        ({"text": " \n"}, 422),
        ({"text": "x" * 601}, 422),
        ({"text": "a b c d e f g h i j " * 12}, 422),
        ({"beams": 0}, 422),
        ({"beams": 9}, 422),
        ({"penalty": 3.5}, 422),
        ({"start": [999_999]}, 422),
        ({"start": [-1]}, 422),
        ({"start": [5] * 201}, 422),
        ({"folder": "/etc/passwd"}, 422),
    ],
)
def test_what_cannot_be_translated_is_refused(call, fields, status):
    found = ask(call, **fields)
    assert found.status == status
    assert found.json()["error"]["what"]


@pytest.mark.parametrize("kind", ["attention", "none"])
def test_runs_of_lstms_translate(page, tmp_path, kind):
    folder = tiny_translator(tmp_path / f"lstm-{kind}", kind)
    call = caller(page, list_models([str(folder)]))
    assert call("/api/translators").json()["models"][0]["id"] == f"lstm-{kind}"
    found = ask(call, model=f"lstm-{kind}", text="ba ce di", beams=3)
    assert found.status == 200, found.body
    assert (found.json()["attention"] is None) == (kind == "none")
    assert (
        found.json()["texts"][0]["text"] == patchword.pipeline(folder, device="cpu").translate("ba ce di", beams=3)[0]
    )
