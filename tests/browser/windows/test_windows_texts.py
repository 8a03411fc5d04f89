"""The page Windows on models of texts: the pairs and the receptive fields are those of the library."""

import csv
import io
import json
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest

from patchword.analysis.attention_pattern import TextPattern, by_part, text_patterns, text_receptive_fields
from patchword.lab.windows.request import own_card
from support.lab.actions import saved, saved_json
from support.lab.browser import Open, expect

KEYS, FIELD, COST = "Save the attention of", "Save the receptive field of", "Save the cost"


@cache
def parts(model: str, tokens: int = 0) -> list[list[TextPattern]]:
    return by_part(text_patterns(own_card({}, model), tokens))


def keys(part: list[TextPattern], layer: int, head: int, row: int) -> list[int]:
    """Return the columns that a row attends to, from the library."""
    found = next(pattern for pattern in part if layer in pattern.layers and head in pattern.heads)
    return [int(column) for column in found.attends[row].nonzero().flatten()]


def fields(part: list[TextPattern], row: int) -> list[list[int]]:
    return [step.nonzero().flatten().tolist() for step in text_receptive_fields(part, row)]


def shown(page: Any, model: str) -> Any:
    """Return what the page shows of a model: the JSON that it saves."""
    return saved_json(page, f"{KEYS} {model}")


def click(page: Any, view: str, row: int, rows: int) -> None:
    """Click a row of the matrix of a view."""
    box = page.locator(f"[data-map={view}] > rect").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + (row + 0.5) * box["height"] / rows)


@pytest.mark.parametrize(
    ("model", "tokens", "layer", "head", "rows"),
    [
        ("bigbird-base", 1024, 3, 5, [0, 7, 14]),
        ("bigbird-base", 4096, 2, 12, [20, 63]),
        ("bigbird-base", 704, 1, 1, [5]),
        ("gpt2-small", 16, 2, 1, [0, 9, 15]),
        ("bert-base", 24, 12, 1, [3]),
    ],
)
def test_the_pairs_and_the_fields_are_those_of_the_library(
    visit: Open, model: str, tokens: int, layer: int, head: int, rows: list[int]
) -> None:
    page = visit("").page
    (part,) = parts(model, tokens)
    for row in rows:
        address = f"#/windows?model={model}&tokens={tokens}&block={layer}&head={head}&token={row}"
        page.evaluate("hash => { location.hash = hash }", address)
        expected = keys(part, layer, head, row)
        expect(page.locator(f"[data-keys='{len(expected)}']")).to_be_visible()
        found = shown(page, model)
        assert (found["tokens"], found["layer"], found["query"]) == (tokens, layer, row)
        assert found["keys"] == expected
        assert head in found["heads"]
        after = saved_json(page, f"{FIELD} {model}")["after"]
        assert [one["columns"] for one in after] == fields(part, row)


def test_a_click_and_the_arrow_keys_choose_the_query(visit: Open) -> None:
    page = visit("#/windows?model=bigbird-base").page
    expect(page.locator("[data-keys]")).to_be_visible()
    (part,) = parts("bigbird-base")
    for row in (0, 3, 11, 15):
        click(page, "first", row, 16)
        found = shown(page, "bigbird-base")
        assert (found["query"], found["keys"]) == (row, keys(part, 2, 1, row))
    for key in ("PageUp", "ArrowDown", "ArrowDown", "ArrowUp"):
        page.locator("[data-surface=first]").press(key)
    assert shown(page, "bigbird-base")["query"] == 1
    page.locator("#windows-head").press("ArrowRight")
    page.locator("#windows-layer").press("End")
    found = shown(page, "bigbird-base")
    assert (found["layer"], found["heads"], found["keys"]) == (12, [2], keys(part, 12, 2, 1))
    page.wait_for_timeout(400)
    restored = page.evaluate("location.hash")
    assert all(one in restored for one in ("block=12", "head=2", "token=1", "tokens=1024"))
    other = visit(restored).page
    expect(other.locator("[data-keys]")).to_be_visible()
    assert shown(other, "bigbird-base") == found


def test_masked_beside_unmasked_with_one_length(visit: Open) -> None:
    page = visit("#/windows?model=gpt2-small&with=bert-base&token=3").page
    for model, count in (("gpt2-small", 4), ("bert-base", 16)):
        expect(page.get_by_role("region", name=model, exact=True).locator(f"[data-keys='{count}']")).to_be_visible()
    expect(page.get_by_text("later tokens: masked")).to_be_visible()
    page.locator("#windows-length").press("ArrowRight")
    for model, count in (("gpt2-small", 6), ("bert-base", 24)):  # the query stays at the same part of the text
        expect(page.get_by_role("region", name=model, exact=True).locator(f"[data-keys='{count}']")).to_be_visible()
        assert shown(page, model)["tokens"] == 24
    page.locator("#windows-other").select_option("swin-tiny")  # an image beside a text
    expect(page.get_by_role("region", name="swin-tiny", exact=True).locator("[data-seen]")).to_be_visible()


def test_the_parts_of_a_translator(visit: Open) -> None:
    page = visit("#/windows?model=transformer-small&token=5").page
    expect(page.locator("[data-keys='16']")).to_be_visible()
    page.get_by_role("button", name="decoder", exact=True).click()
    expect(page.locator("[data-keys='6']")).to_be_visible()
    assert shown(page, "transformer-small")["keys"] == keys(parts("transformer-small")[1], 2, 1, 5)
    page.get_by_role("button", name="decoder, to the source").click()
    expect(page.locator("[data-keys='16']")).to_be_visible()
    expect(page.get_by_text("each token of the target attends to all tokens of the source")).to_be_visible()
    assert page.locator("[data-seen]").count() == 0


def test_every_view_is_saved_and_drawn(visit: Open) -> None:
    page = visit("#/windows?model=bigbird-base").page
    expect(page.locator("[data-keys]")).to_be_visible()
    for group in (f"{KEYS} bigbird-base", f"{FIELD} bigbird-base", COST):
        svg = ElementTree.fromstring(saved(page, group, "SVG"))
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert saved(page, group, "PNG").startswith(b"\x89PNG")
        assert list(csv.DictReader(io.StringIO(saved(page, group, "CSV").decode())))
    # 2 global blocks attend to all 16, 14 to 8; 64 x 64 pairs of 64 numbers in 12 heads, twice
    macs = 2 * 12 * 64 * (2 * 16 + 14 * 8) * 64 * 64
    assert {row["attention_macs"] for row in json.loads(saved(page, COST, "JSON"))} == {macs}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible_and_fits(visit: Open, theme: str) -> None:
    for size, other in (((1366, 768), "gpt2-small"), ((390, 844), "swin-mini")):
        found = visit(f"#/windows?model=bigbird-base&with={other}", size, theme)
        expect(found.page.locator("[data-keys]")).to_have_count(2)
        assert found.overflow() <= 0
        assert not found.violations()


def test_a_model_without_attention_is_explained(visit: Open) -> None:
    found = visit("#/windows?model=elmo-small")
    expect(found.page.get_by_role("alert")).to_contain_text("has no attention")
    found.errors.clear()  # the browser reports the 422
