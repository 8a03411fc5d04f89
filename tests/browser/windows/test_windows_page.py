"""The page Windows shows the groups of the library: a click gives the keys, and the steps move the map."""

import csv
import io
import json
from functools import cache
from itertools import product
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from patchword.analysis.attention_pattern import AttentionPattern, attention_patterns, block_receptive_fields, by_stage
from patchword.lab.windows.request import card_of
from support.lab.actions import saved, saved_json
from support.lab.browser import Open, expect

KEYS, FIELD, COST = "Save the attention of", "Save the receptive field of", "Save the cost"


@cache
def stages(model: str, image: str = "") -> list[list[AttentionPattern]]:
    return by_stage(attention_patterns(card_of({}, model, image)))


def keys(model: str, stage: int, block: int, token: int, image: str = "") -> list[list[int]]:
    """Return the keys of a token in each head group, from the library."""
    found = [pattern for pattern in stages(model, image)[stage - 1] if block in pattern.blocks]
    query = torch.arange(found[0].grid.tokens) == token
    return [pattern.attended_keys(query).nonzero().flatten().tolist() for pattern in found]


def shown(page: Any, model: str) -> Any:
    """Return what the page shows of a model: the JSON that it saves."""
    return saved_json(page, f"{KEYS} {model}")


def click(page: Any, view: str, row: int, column: int, rows: int) -> None:
    """Click a token of the first map of a view."""
    box = page.locator(f"[data-map={view}-0] > rect").bounding_box()
    cell = box["height"] / rows
    page.mouse.click(box["x"] + (column + 0.5) * cell, box["y"] + (row + 0.5) * cell)


CASES = [
    ("swin-mini", 1, 2, ["0,0", "13,5", "6,6"]),
    ("swin-mini&image=44", 1, 2, ["21,21", "2,9"]),
    ("cswin-mini", 1, 1, ["3,8"]),
    ("pale-mini", 1, 2, ["9,1"]),
    ("pvt-mini", 1, 1, ["5,5"]),
    ("cvt-mini", 2, 2, ["lead0", "6,2"]),
    ("deit-mini-distilled", 1, 1, ["lead1", "3,3"]),
]


@pytest.mark.parametrize(("address", "stage", "block", "tokens"), CASES)
def test_the_keys_and_fields_are_those_of_the_library(
    visit: Open, address: str, stage: int, block: int, tokens: list[str]
) -> None:
    model, _, image = address.partition("&image=")
    page = visit("").page
    for text in tokens:
        page.evaluate(
            "hash => { location.hash = hash }",
            f"#/windows?model={address}&stage={stage}&block={block}&token={text}",
        )
        patterns = stages(model, image)[stage - 1]
        grid = patterns[0].grid
        row, _, column = text.partition(",")
        token = int(text[4:]) if text.startswith("lead") else grid.prefix + int(row) * grid.width + int(column)
        expected = keys(model, stage, block, token, image)
        counts = ",".join(str(len(one)) for one in expected)
        view = page.get_by_role("region", name=model, exact=True)
        expect(view.locator(f"[data-keys='{counts}']")).to_be_visible()
        found = shown(page, model)
        assert (found["stage"], found["block"], found["query"]) == (stage, block, token)
        assert [one["keys"] for one in found["head_groups"]] == expected
        fields = saved_json(page, f"{FIELD} {model}")["after"]
        steps = block_receptive_fields(patterns, token)
        assert [one["tokens"] for one in fields] == [step.nonzero().flatten().tolist() for step in steps]
        assert [one["seen"] for one in fields] == [int(step.sum()) for step in steps]


def test_it_starts_with_shifted_windows(visit: Open) -> None:
    page = visit("#/windows").page
    expect(page.locator("[data-keys='49']")).to_be_visible()
    found = shown(page, "swin-tiny")
    assert (found["stage"], found["block"], found["query"]) == (3, 2, 6 * 14 + 6)
    assert found["global_macs"] == 4 * found["attention_macs"]


def test_a_click_and_the_arrow_keys_choose_the_query(visit: Open) -> None:
    page = visit("#/windows?model=swin-mini&stage=1&block=2").page
    expect(page.locator("[data-keys]")).to_be_visible()
    for row, column in product((0, 6, 13), (1, 12)):
        click(page, "first", row, column, 14)
        expected = keys("swin-mini", 1, 2, 14 * row + column)
        expect(page.locator("[data-keys]")).to_have_attribute("data-keys", str(len(expected[0])))
        found = shown(page, "swin-mini")
        assert (found["query"], found["head_groups"][0]["keys"]) == (14 * row + column, expected[0])
    surface = page.locator("[data-surface=first]")
    for key in ("Home", "PageUp", "ArrowDown", "ArrowDown", "ArrowRight"):
        surface.press(key)
    assert shown(page, "swin-mini")["query"] == 2 * 14 + 1
    assert shown(page, "swin-mini")["head_groups"][0]["keys"] == keys("swin-mini", 1, 2, 29)[0]


def test_the_steps_roll_the_map(visit: Open) -> None:
    page = visit("#/windows?model=swin-mini&stage=1&block=2&token=0,0&step=1").page
    page.emulate_media(reduced_motion="reduce")
    step, status = page.locator("#first-step"), page.locator("[data-keys]")
    expect(status).to_contain_text("In the block before, row 1, column 1 attends to 49 of 196 tokens.")
    cell = page.locator("[data-map=first-0] > g > g")
    assert cell.count() == 1
    step.press("ArrowRight")
    expect(status).to_contain_text("Row 1, column 1 attends to 9 of 196 tokens.")
    assert cell.count() == 1
    step.press("ArrowRight")
    expect(page.get_by_text("other tokens of its window")).to_be_visible()
    assert [one.get_attribute("transform") for one in cell.all()] == [
        "translate(-3.000 -3.000)", "translate(-3.000 11.000)", "translate(11.000 -3.000)", "translate(11.000 11.000)"
    ]  # fmt: skip
    click(page, "first", 0, 0, 14)  # on the rolled map this is the token of row 4, column 4
    assert shown(page, "swin-mini")["query"] == 3 * 14 + 3
    click(page, "first", 12, 12, 14)
    assert shown(page, "swin-mini")["query"] == 14 + 1
    step.press("ArrowRight")
    expect(page.get_by_text("other region of a window: masked")).to_be_visible()
    step.press("ArrowRight")
    expect(cell).to_have_count(1)
    page.wait_for_timeout(300)
    assert "step=5" in page.evaluate("location.hash")


def test_the_animation_plays_and_stops(visit: Open) -> None:
    page = visit("#/windows?model=swin-mini&stage=1&block=2&step=2").page
    page.get_by_role("button", name="Play").click()
    expect(page.locator("[data-step='2']")).to_be_visible()
    expect(page.locator("[data-map=first-0] > g > g")).to_have_count(4)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    page.locator("#first-step").press("Home")
    expect(page.locator("[data-step='0']")).to_be_visible()


def test_two_models_are_side_by_side(visit: Open) -> None:
    page = visit("#/windows?model=swin-mini&with=cswin-mini&stage=1&block=1&token=3,4&after=2").page
    for model in ("swin-mini", "cswin-mini"):
        expect(page.get_by_role("region", name=model, exact=True)).to_be_visible()
    click(page, "second", 10, 2, 14)
    for model in ("swin-mini", "cswin-mini"):
        found = shown(page, model)
        assert found["query"] == 142
        assert [one["keys"] for one in found["head_groups"]] == keys(model, 1, 1, 142)
    page.wait_for_timeout(400)
    restored = page.evaluate("location.hash")
    assert all(part in restored for part in ("with=cswin-mini", "token=10%2C2", "after=2", "stage=1", "block=1"))
    other = visit(restored).page
    expect(other.get_by_role("region", name="cswin-mini", exact=True)).to_be_visible()
    assert shown(other, "cswin-mini") == shown(page, "cswin-mini")


def test_blocks_and_stages_are_chosen(visit: Open) -> None:
    page = visit("#/windows?model=swin-mini").page
    expect(page.locator("[data-keys]")).to_be_visible()
    page.get_by_role("button", name="Stage 2").click()
    page.get_by_role("button", name="Block 1").click()
    found = shown(page, "swin-mini")
    assert (found["stage"], found["block"]) == (2, 1)
    assert [one["keys"] for one in found["head_groups"]] == keys("swin-mini", 2, 1, found["query"])
    page.locator("#first-after").press("Home")
    expect(page.locator("[data-seen]")).to_have_text("After 1 block this token has seen 49 of 49 tokens.")
    page.locator("#windows-model").select_option("cvt-mini")
    expect(page.get_by_role("region", name="cvt-mini", exact=True)).to_be_visible()
    page.get_by_text("The keys of this token as a table").click()
    expect(page.get_by_role("row")).to_have_count(1 + 1 + 4)  # the head, [CLS] and 4 x 4 keys


def test_every_view_is_saved_and_drawn(visit: Open) -> None:
    page = visit("#/windows?model=pale-mini&stage=1&block=1").page
    expect(page.locator("[data-keys]")).to_be_visible()
    for group in (f"{KEYS} pale-mini", f"{FIELD} pale-mini", COST):
        svg = ElementTree.fromstring(saved(page, group, "SVG"))
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert saved(page, group, "PNG").startswith(b"\x89PNG")
        assert list(csv.DictReader(io.StringIO(saved(page, group, "CSV").decode())))
    assert {row["attention_macs"] for row in json.loads(saved(page, COST, "JSON")) if row["stage"] == 1} == {1229312}


def test_a_model_without_attention_is_explained(visit: Open) -> None:
    found = visit("#/windows?model=resnet-18")
    expect(found.page.get_by_role("alert")).to_contain_text("has no attention")
    found.errors.clear()  # the browser reports the 422


FRAMES = """async (count) => {
  const times = []
  for (let turn = 0; turn < count; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 40))
    const surface = document.querySelector('[data-surface=first]')
    const box = surface.getBoundingClientRect()
    const at = { bubbles: true, clientX: box.left + 20 + 21 * turn, clientY: box.top + 30 + 17 * turn }
    const start = performance.now()
    surface.dispatchEvent(new PointerEvent('pointerdown', at))
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
    times.push(performance.now() - start)
  }
  return times.sort((a, b) => a - b)[Math.floor(count / 2)]
}"""


def test_a_click_on_3136_tokens_is_on_the_screen_soon(visit: Open) -> None:
    page = visit("#/windows?model=swin-tiny&stage=1&block=2").page
    expect(page.locator("[data-keys]")).to_be_visible()
    before = shown(page, "swin-tiny")["query"]
    median = page.evaluate(FRAMES, 15)
    print(f"{median:.1f} ms from click to frame (median of 15)")
    assert shown(page, "swin-tiny")["query"] != before
