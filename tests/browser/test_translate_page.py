"""The page Translate: the search and the attention of the Python API, other words, the address, two models."""

import json
from typing import Any
from urllib.parse import parse_qs

import pytest

import patchword
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.translation.search import Search, in_words
from patchword.recipes.translation.translating import Translating
from support.lab.actions import saved, saved_json
from support.lab.browser import Open, expect

SENTENCE = "A man in a blue shirt is standing on a ladder cleaning a window."
NAME = "translator-en-de, 4 beams"


@pytest.fixture(scope="module")
def translator() -> Translating:
    return patchword.pipeline("zoo:translator-en-de", device="cpu").translator


def source_of(translator: Translating, text: str = SENTENCE) -> Any:
    return translator.sources([TextInput(text, place={})])


def ready(page: Any, panel: str = "first") -> Any:
    found = page.locator(f"[data-panel={panel}][data-state=ready]")
    expect(found.locator("[data-figure=next] [role=button]").first).to_be_visible()
    return found


def query_of(page: Any) -> dict[str, str]:
    page.wait_for_timeout(300)
    text = page.evaluate("location.hash").partition("?")[2]
    return {name: values[0] for name, values in parse_qs(text).items()}


def test_the_search_and_the_attention_are_those_of_the_python_interface(visit: Open, translator: Translating) -> None:
    page = visit("#/translate").page
    panel = ready(page)
    source, search = source_of(translator), Search(4, 0.6)
    expected, alignment = translator.trace(source, search), translator.alignment(source, search)[1]
    expect(panel.locator("[data-translation]")).to_have_text(in_words(translator.languages, [expected.tokens])[0])
    found = saved_json(page, f"Save the beam search of {NAME}")
    assert [[(one["id"], one["fate"]) for one in step] for step in found["steps"]] == [
        [(one.token, one.fate) for one in step] for step in expected.steps
    ]
    scores = [one["score"] for step in found["steps"] for one in step]
    assert scores == pytest.approx([one.score for step in expected.steps for one in step], abs=1e-4)
    assert page.locator("[data-node]").count() == len(scores)
    page.get_by_label("Dropped beams").uncheck()
    assert page.locator("[data-node]").count() == sum(one.fate != "dropped" for step in expected.steps for one in step)
    weights = saved_json(page, f"Save the attention of {NAME}")
    assert (weights["read"], weights["layer"]) == (list(alignment.read), alignment.layer)
    for line, values in zip(weights["weights"], alignment.weights.tolist(), strict=True):
        assert line == pytest.approx(values, abs=1e-4)


def test_a_step_has_its_next_words_and_another_word_goes_on(visit: Open, translator: Translating) -> None:
    page = visit("#/translate?node=6-0").page
    panel = ready(page)
    expect(panel.locator("[data-before]")).to_have_text("… Ein Mann in einem blauen Hemd ?")
    source = source_of(translator)
    start = translator.trace(source, Search(4, 0.6)).tokens[:6]
    expected = translator.next_tokens(source, start, 10)
    found = saved_json(page, "Save the next tokens")
    assert [one["id"] for one in found["words"]] == [token for token, _ in expected]
    other, _ = expected[1]
    panel.locator("[data-figure=next] [role=button]").nth(1).press("Enter")
    expect(panel.get_by_role("button", name="Translate freely")).to_be_visible()
    changed = translator.trace(source, Search(4, 0.6), (*start, other))
    expect(panel.locator("[data-translation]")).to_have_text(in_words(translator.languages, [changed.tokens])[0])
    assert query_of(page)["start"] == ",".join(map(str, (*start, other)))
    panel.get_by_role("button", name="Translate freely").click()
    expect(panel.get_by_role("button", name="Translate freely")).to_have_count(0)


def test_the_tree_is_walked_with_the_keyboard(visit: Open) -> None:
    page = visit("#/translate?node=3-0").page
    ready(page)
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowLeft")
    assert query_of(page)["node"] == "2-0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert query_of(page)["node"] == "3-1"
    page.locator("#first-word").press("ArrowRight")
    expect(page.locator("output[for=first-word]")).to_have_text("Ein")
    page.locator("#beams").press("Home")
    expect(page.locator("output[for=beams]")).to_have_text("1 (greedy)")
    expect(page.get_by_text("Translation: translator-en-de, greedy")).to_be_visible()


def test_the_address_restores_two_models(visit: Open, translator: Translating) -> None:
    text = "Two dogs are running on the beach."
    second = "with=translator-en-de&withbeams=2"
    look = "view=lines&layer=3&word=2"
    page = visit(f"#/translate?text={text.replace(' ', '+')}&beams=5&penalty=1.2&{second}&{look}").page
    expected = [translator.trace(source_of(translator, text), Search(beams, 1.2)) for beams in (5, 2)]
    for panel, one in zip(("first", "second"), expected, strict=True):
        shown = ready(page, panel).locator("[data-translation]")
        expect(shown).to_have_text(in_words(translator.languages, [one.tokens])[0])
    query = query_of(page)
    assert (query["text"], query["beams"], query["penalty"], query["withbeams"]) == (text, "5", "1.2", "2")
    assert (query["view"], query["layer"], query["word"]) == ("lines", "3", "2")
    expect(page.locator("#first-word")).to_have_value("2")


def test_an_error_is_shown_and_what_is_wrong_is_repaired(visit: Open) -> None:
    found = visit("#/translate")
    page = found.page
    ready(page)
    page.locator("#text").fill("a b c d e f g h i j " * 10)
    expect(page.get_by_role("alert")).to_contain_text("too long for this page")
    page.locator("#text").fill("A dog runs.")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("[data-translation]")).to_contain_text("Hund")
    found.errors[:] = [one for one in found.errors if "422" not in one]


def test_the_figures_are_saved(visit: Open) -> None:
    page = visit("#/translate").page
    ready(page)
    for group in (f"Save the beam search of {NAME}", f"Save the attention of {NAME}", "Save the next tokens"):
        assert saved(page, group, "SVG").startswith(b"<svg")
        assert saved(page, group, "PNG").startswith(b"\x89PNG")
        assert json.loads(saved(page, group, "JSON"))
    lines = saved(page, f"Save the attention of {NAME}", "CSV").decode().splitlines()
    assert lines[0].startswith("translation,A,man,in")
    assert len(lines) == 17


def test_a_page_that_is_left_does_not_read_the_address_of_the_next(visit: Open) -> None:
    page = visit("#/cost").page
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.evaluate("location.hash = '#/translate?model=translator-en-de&with=translator-en-de'")
    ready(page, "second")
    assert not [one for one in asked if "/api/cost" in one]
    assert any("/api/translate" in one for one in asked)
