"""The page Words shows the numbers of the Python API, restores its address, and works by keyboard."""

import csv
import io
from functools import cache
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
import torch

import patchword
from patchword.inspection.token_walk import token_walk
from patchword.recipes.text.inference.next_words import next_words
from support.lab.actions import saved, saved_json
from support.lab.browser import Open, expect

TEXT = "The old man sat by the fire <script>alert(1)</script>."
SVG = "{http://www.w3.org/2000/svg}svg"


@cache
def opened(name: str) -> patchword.Pipeline:
    return patchword.pipeline(f"zoo:{name}", device="cpu", precision="float32")


def parses(page: Any, group: str) -> None:
    """Check that the files of a figure can be read."""
    assert ElementTree.fromstring(saved(page, group, "SVG")).tag == SVG
    assert saved(page, group, "PNG").startswith(b"\x89PNG")
    assert len(list(csv.reader(io.StringIO(saved(page, group, "CSV").decode())))) > 1


def test_attention_is_that_of_the_pipeline(visit: Open) -> None:
    page = visit("#/words").page
    expect(page.locator("[data-figure=lines]")).to_be_visible()
    page.get_by_label("Text", exact=True).fill(TEXT)
    expect(page.locator("[data-figure=tokens]")).to_contain_text("script")
    exact = opened("bert-mini").attention(TEXT)
    for layer, head in ((1, 1), (3, 2)):
        page.get_by_role("button", name=f"Layer {layer}").click()
        page.get_by_role("button", name=f"Head {head}").click()
        found = saved_json(page, "Save the attention")
        weights = torch.tensor(found["weights"]).reshape(len(found["words"]), -1)
        assert (weights - torch.tensor(exact.maps[layer - 1][head - 1])).abs().max() < 1e-5
    tokens = saved_json(page, "Save the tokens")
    assert [token["name"] for token in tokens] == list(exact.tokens)
    page.get_by_role("button", name="Special tokens: shown").click()
    found = saved_json(page, "Save the attention")
    weights = torch.tensor(found["weights"]).reshape(len(found["words"]), -1)
    assert (weights - exact.found.without_special().layers[2].weights[1]).abs().max() < 1e-5
    assert "[CLS]" not in found["words"]
    for group in ("Save the attention", "Save the tokens", "Save all heads"):
        parses(page, group)


def test_lines_and_matrix_answer_to_the_pointer_and_the_keyboard(visit: Open) -> None:
    page = visit("#/words?layer=2&head=3").page
    expect(page.locator("[data-reading]")).to_contain_text("Layer 2, head 3")
    weights = torch.tensor(opened("bert-mini").attention(saved_json(page, "Save the attention")["text"]).maps[1][2])
    page.locator("#query").press("ArrowRight")
    expect(page.locator("output[for=query]")).to_have_text("[CLS]")
    best = saved_json(page, "Save the attention")["words"][int(weights[0].argmax())]
    expect(page.locator("[data-reading]")).to_contain_text(
        f"“[CLS]” attends to “{best}” with {100 * weights[0].max():.1f} %"
    )
    page.get_by_role("button", name="Matrix").press("Enter")
    figure = page.locator("[data-figure=matrix]")
    box = figure.locator("image").bounding_box()
    cell = box["width"] / len(weights)
    page.mouse.move(box["x"] + 3.5 * cell, box["y"] + 2.5 * cell)
    words = saved_json(page, "Save the attention")["words"]
    page.mouse.move(box["x"] + 3.5 * cell, box["y"] + 2.5 * cell)
    expected = f"“{words[2]}” attends to “{words[3]}” with {100 * weights[2, 3]:.1f} %."
    expect(page.locator("[data-reading]")).to_have_text(expected)
    box = page.locator("[data-figure=sheet] image").nth(5).bounding_box()
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    assert saved_json(page, "Save the attention")["layer"] == 2
    assert saved_json(page, "Save the attention")["head"] == 2


def test_a_chosen_word_is_masked_and_both_models_answer(visit: Open) -> None:
    page = visit("#/words?view=fill").page
    expect(page.locator("[data-filled]")).to_contain_text("night")
    page.get_by_label("Text", exact=True).fill("She opened the door and looked out.")
    page.get_by_role("group", name="Choose a word to mask it").get_by_role("button", name="door").click()
    exact = opened("bert-mini").fill("She opened the [MASK] and looked out.", top=8)
    expect(page.locator("[data-filled]")).to_have_attribute("data-filled", exact.filled)
    found = saved_json(page, "Save the fill-in")["gaps"][0]["fillings"]
    assert [one["word"] for one in found] == [one.word for one in exact[0].fillings]
    assert [one["probability"] for one in found] == pytest.approx(
        [one.probability for one in exact[0].fillings], abs=1e-5
    )
    found = saved_json(page, "Save the next word")
    assert found["prefix"] == "She opened the"
    expected = next_words(opened("gpt-mini").engine.reader, found["prefix"], 8)
    assert [one["word"] for one in found["words"]] == [one.word for one in expected]
    assert [one["probability"] for one in found["words"]] == pytest.approx(
        [one.probability for one in expected], abs=1e-5
    )
    for group in ("Save the fill-in", "Save the next word"):
        parses(page, group)


@pytest.mark.parametrize("model", ["bert-mini", "elmo-mini"])
def test_one_word_across_sentences(visit: Open, model: str) -> None:
    visited = visit(f"#/words?view=similar&model={model}")
    page = visited.page
    expect(page.locator("[data-figure=similarity]")).to_be_visible()
    found = saved_json(page, "Save the similarity")
    assert found["model"] == model
    last = torch.tensor(found["layers"][max(found["layers"])])
    assert last.shape == (4, 4)
    assert min(last[0, 1], last[2, 3]) > max(last[0, 2], last[0, 3], last[1, 2], last[1, 3])
    page.locator("#sentences").fill("Only one sentence")
    expect(page.get_by_role("alert")).to_contain_text("2 to 12 sentences, one per line")
    visited.errors.clear()  # the browser reports the 422


def test_one_token_is_followed_with_the_numbers_of_the_model(visit: Open) -> None:
    page = visit(
        f"#/words?view=walk&model=gpt-mini&layer=3&head=2&token=4&text={quote('The old man sat by the fire.')}"
    ).page
    expect(page.locator("[data-walk='4-3-2']")).to_be_visible()
    walk = token_walk(opened("gpt-mini").engine.reader, "The old man sat by the fire.", 4, 3)

    def values(group: str) -> dict[str, torch.Tensor]:
        return {one["name"]: torch.tensor(one["values"]) for one in saved_json(page, f"Save {group}")["values"]}

    embedding = values("1. Embedding")
    assert (embedding["= sum"] - walk.embedding.total).abs().max() < 1e-5
    sums = values("4. Weighted sum")
    assert (sums["h after"] - walk.attention.after).abs().max() < 1e-5
    found = saved_json(page, "Save 3. Attention")["values"]
    assert (torch.tensor(found["weights"]) - walk.attention.weights[1]).abs().max() < 1e-5
    assert found["scores"][5:] == [None] * len(found["scores"][5:])
    page.get_by_role("button", name="Head 4").press("Enter")
    expect(page.locator("[data-walk='4-3-4']")).to_be_visible()
    found = saved_json(page, "Save 3. Attention")["values"]
    assert (torch.tensor(found["weights"]) - walk.attention.weights[3]).abs().max() < 1e-5
    page.get_by_role("group", name="Token").get_by_role("button", name="old").click()
    expect(page.locator("[data-walk='2-3-4']")).to_be_visible()
    for step in ("2. Query, key, value", "3. Attention", "5. Feed-forward"):
        parses(page, f"Save {step}")


def test_a_followed_token_fits_on_a_little_more_than_a_laptop_page(visit: Open) -> None:
    page = visit("#/words?view=walk").page
    expect(page.locator("[data-figure=stream]")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollHeight") <= 1.3 * 768


def test_the_address_restores_the_view(visit: Open) -> None:
    page = visit(f"#/words?text={quote(TEXT)}&shape=matrix&layer=3&head=2&special=hidden&model=gpt-mini").page
    expect(page.locator("[data-figure=matrix]")).to_be_visible()
    found = saved_json(page, "Save the attention")
    assert (found["text"], found["layer"], found["head"]) == (TEXT, 3, 2)
    assert "</s>" not in found["words"]
    page.get_by_role("button", name="Fill in").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value(TEXT)
    page.get_by_role("group", name="Choose a word to mask it").get_by_role("button", name="fire").click()
    page.wait_for_timeout(400)  # the address follows after 200 ms
    address = page.evaluate("location.hash")
    page.evaluate("location.hash = '#/cost'")
    page.evaluate("address => { location.hash = address }", address)
    expect(page.get_by_role("button", name="[MASK]")).to_be_visible()


def test_errors_are_explained_beside_the_text(visit: Open) -> None:
    found = visit("#/words?text=")
    expect(found.page.get_by_role("alert")).to_contain_text("the text is empty")
    found.page.get_by_label("Text", exact=True).fill("word " * 300)
    expect(found.page.get_by_role("alert")).to_have_count(0)
    found.errors.clear()  # the browser reports the 422


CHANGE = """async () => {
  const buttons = [...document.querySelectorAll('[aria-label^="Head "]')]
  const times = []
  for (let turn = 0; turn < 12; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 40))
    const start = performance.now()
    buttons[turn % buttons.length].click()
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
    times.push(performance.now() - start)
  }
  return times.sort((a, b) => a - b)[6]
}"""


@pytest.mark.parametrize("view", ["attention", "walk"])
def test_another_head_needs_no_request(visit: Open, view: str) -> None:
    page = visit(f"#/words?view={view}").page
    expect(page.locator("[data-reading]").first).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if "/api/" in one.url else None)
    print(f"{view}: {page.evaluate(CHANGE):.1f} ms from another head to its frame (median of 12)")
    assert not asked
