"""The page Compare shows the registry: sorted, filtered, as points, with cost and code."""

import csv
import io
from xml.etree import ElementTree

from patchword.lab.comparison import comparison_json, counted_json
from support.lab.actions import saved, saved_json
from support.lab.browser import Open, expect

FIGURE, ROWS = "[data-figure=models]", "[data-row]"
OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll('[data-label]')].map((one) => one.getBoundingClientRect())
  const above = (a, b) => a.bottom <= b.top + 5
  const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 || above(a, b) || above(b, a)
  return boxes.flatMap((a, index) => boxes.slice(index + 1).filter((b) => !apart(a, b))).length
}"""
GROUPS = comparison_json()


def test_every_model_with_a_score_is_a_point_and_labels_do_not_overlap(visit: Open) -> None:
    page = visit("#/compare").page
    expect(page.locator(FIGURE)).to_be_visible()
    rows = GROUPS["images"]["rows"]
    assert page.locator("[data-point]").count() == sum(bool(one["scores"]) for one in rows)
    assert page.locator(ROWS).count() == len(rows)
    assert page.evaluate(OVERLAPS) == 0
    print(f"{page.locator('[data-label]').count()} of {page.locator('[data-point]').count()} points have a label")
    places = page.evaluate("""() => [...document.querySelectorAll('[data-point]')].map((one) =>
        [one.dataset.point, ...one.getAttribute('transform').match(/[\\d.]+/g).map(Number)])""")
    costs = {one["id"]: one["macs"] for one in rows}
    scores = {one["id"]: one["scores"]["ImageNet top-1"]["value"] for one in rows if one["scores"]}
    by_cost = sorted(places, key=lambda place: place[1])
    assert [costs[name] for name, *_ in by_cost] == sorted(costs[name] for name in scores)
    by_score = sorted(places, key=lambda place: -place[2])
    assert [scores[name] for name, *_ in by_score] == sorted(scores.values())


def test_it_sorts_and_filters(visit: Open) -> None:
    page = visit("#/compare?find=swin&families=CSWin,Swin").page
    expect(page.locator(ROWS).first).to_be_visible()
    names = [one["id"] for one in GROUPS["images"]["rows"] if one["family"] in ("Swin", "CSWin")]
    assert page.locator("[data-count]").inner_text() == str(len(names))
    page.locator("[data-sort=macs]").click()
    costs = {one["id"]: one["macs"] for one in GROUPS["images"]["rows"]}
    shown = page.evaluate("[...document.querySelectorAll('[data-row]')].map((one) => one.dataset.row)")
    assert shown == sorted(names, key=lambda name: -costs[name])
    page.locator("[data-sort=macs]").press("Enter")
    assert page.locator(ROWS).first.get_attribute("data-row") == min(names, key=costs.__getitem__)
    assert page.locator("[aria-sort]").get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="CSWin", exact=True).click()
    page.locator("#find").fill("swin base")
    assert [one.get_attribute("data-row") for one in page.locator(ROWS).all()] == ["swin-base", "swin-base-384"]
    page.wait_for_timeout(400)
    address = page.evaluate("location.hash")
    assert "sort=macs&order=up" in address
    again = visit(address).page
    expect(again.locator(ROWS)).to_have_count(2)
    assert again.locator("#find").input_value() == "swin base"


def test_a_model_is_chosen_by_point_and_by_keyboard(visit: Open) -> None:
    page = visit("#/compare").page
    box = page.locator("[data-point=mixer-large-16]").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(1, 1)
    expect(page.locator("[data-details]")).to_have_text("mixer-large-16")
    button = page.locator("[data-row=vit-base-16]").get_by_role("button", name="vit-base-16", exact=True)
    button.focus()
    expect(page.locator("[data-details]")).to_have_text("vit-base-16")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Show the code").click()
    expect(page.locator("[data-code=vit-base-16]")).to_contain_text("class VitConfig")
    page.get_by_role("link", name="Cost line by line").click()
    expect(page.locator("[data-sums=vit-base-16]")).to_be_visible()


def test_a_detector_is_counted_when_it_is_chosen(visit: Open) -> None:
    page = visit("#/compare?group=dense&model=retinanet-resnet-50-1x").page
    expect(page.locator("[data-counted=macs]")).to_contain_text(",")
    counted = counted_json("retinanet-resnet-50-1x")
    assert page.locator("[data-counted=macs]").inner_text() == f"{counted['macs']:,}"
    assert page.locator("[data-counted=parameters]").inner_text() == f"{counted['parameters']:,}"


def test_figure_and_table_are_saved(visit: Open) -> None:
    page = visit("#/compare?group=texts&score=GLUE").page
    expect(page.locator(FIGURE)).to_be_visible()
    svg = ElementTree.fromstring(saved(page, "Save the figure", "SVG"))
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert saved(page, "Save the figure", "PNG").startswith(b"\x89PNG")
    table = list(csv.DictReader(io.StringIO(saved(page, "Save the table", "CSV").decode())))
    values = {one["model"]: one["GLUE"] for one in table}
    assert (len(table), values["bert-tiny"]) == (len(GROUPS["texts"]["rows"]), "64.2")
    assert {one["id"] for one in saved_json(page, "Save the table")} == {one["id"] for one in GROUPS["texts"]["rows"]}
