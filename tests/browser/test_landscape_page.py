"""The page Landscape draws what runs have saved, on one scale, and turns it by mouse and keyboard."""

import csv
import io
import json
from typing import Any
from xml.etree import ElementTree

from patchword.core.files import read_json
from patchword.weights.local_path import local_path
from support.lab.actions import saved, saved_json
from support.lab.browser import Open, expect

CANVAS = "[data-figure=landscape]"
SVG = "{http://www.w3.org/2000/svg}"
EXAMPLE = local_path("zoo:vit-exercise") / "landscape.json"


def points(svg: bytes) -> list[str]:
    """Return the corners of all polygons in the order in which they are drawn."""
    return [one.get("points", "") for one in ElementTree.fromstring(svg).iter(f"{SVG}polygon")]


def test_it_opens_with_the_example(visit: Open) -> None:
    page = visit("#/landscape?runs=zoo:vit-exercise").page
    expect(page.locator(CANVAS)).to_be_visible()
    kept = read_json(EXAMPLE)
    [shown] = saved_json(page, "Save the landscapes")
    assert {name: shown["landscape"][name] for name in ("places", "loss", "accuracy", "sample")} == {
        name: kept[name] for name in ("places", "loss", "accuracy", "sample")
    }
    table = list(csv.DictReader(io.StringIO(saved(page, "Save the landscapes", "CSV").decode())))
    assert [float(row["loss"]) for row in table] == [loss for row in kept["loss"] for loss in row]
    highest = max(loss for row in kept["loss"] for loss in row)
    row = page.locator("[data-measure='Highest loss of the landscape'] td")
    assert float(row.inner_text()) == float(f"{highest:.4g}")
    assert saved(page, "Save the landscapes", "PNG").startswith(b"\x89PNG")
    assert len(points(saved(page, "Save the landscapes", "SVG"))) == 20 * 20 + 96  # cells, and the bar of colours


def test_it_turns_by_mouse_by_keys_and_by_sliders(visit: Open) -> None:
    page = visit("#/landscape?runs=zoo:vit-exercise&azimuth=35&elevation=30").page
    surface = page.get_by_role("application")
    expect(page.locator(CANVAS)).to_be_visible()
    first = saved(page, "Save the landscapes", "SVG")
    box = surface.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 340, box["y"] + 220, steps=4)
    page.mouse.up()
    assert page.locator("output[for=azimuth]").inner_text() == "55°"
    assert page.locator("output[for=elevation]").inner_text() == "40°"
    assert points(saved(page, "Save the landscapes", "SVG")) != points(first)
    surface.focus()
    for key in ("ArrowLeft", "ArrowLeft", "ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    assert page.locator("output[for=azimuth]").inner_text() == "45°"
    page.locator("#azimuth").press("ArrowRight")
    page.wait_for_timeout(400)
    assert "azimuth=46&elevation=30" in page.evaluate("location.hash")
    surface.press("Home")
    assert saved(page, "Save the landscapes", "SVG") == first


def test_the_address_restores_the_view(visit: Open) -> None:
    address = "#/landscape?runs=zoo:vit-exercise&azimuth=120&elevation=60&height=accuracy"
    page = visit(address).page
    expect(page.locator(CANVAS)).to_be_visible()
    assert page.locator("output[for=azimuth]").inner_text() == "120°"
    assert page.get_by_role("button", name="Accuracy", exact=True).get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Contours").click()
    assert len(points(saved(page, "Save the landscapes", "SVG"))) == 9 * 20 * 20 + 96
    page.get_by_role("button", name="Loss", exact=True).click()
    page.get_by_role("button", name="Linear").click()
    page.wait_for_timeout(400)
    restored = page.evaluate("location.hash")
    assert "view=contours&scale=linear" in restored
    again = visit(restored).page
    expect(again.locator(CANVAS)).to_be_visible()
    assert saved(again, "Save the landscapes", "SVG") == saved(page, "Save the landscapes", "SVG")


def bowl(name: str, steep: float, size: int = 41) -> dict[str, Any]:
    """A run with a landscape made for this test."""
    at = [2 * index / (size - 1) - 1 for index in range(size)]
    loss = [[0.1 + steep * (x * x + y * y / 2) for x in at] for y in at]
    middle = {"loss": 0.1, "accuracy": None}
    landscape = {"directions": "random", "sample": "a test", "loss_name": "loss", "places": at, "loss": loss}
    has = {"landscape": True, "sharpness": False, "robustness": False}
    return {
        **{"id": name, "name": name, "kind": "images", "can_compute": True, "has": has, "older": []},
        **{"landscape": {**landscape, "accuracy": None, "middle": middle}, "sharpness": None, "robustness": None},
    }


def answer(page: Any, job: list[Any]) -> None:
    """Let the page ask this test instead of the server. job: the one that is running, in a list."""
    runs = [bowl("flat", 1.0), bowl("steep", 30.0)]
    new = {"id": "new", "name": "new", "kind": "images", "can_compute": True}
    listed = [*runs, {**new, "has": dict.fromkeys(runs[0]["has"], False)}]
    replies: dict[str, Any] = {f"/api/landscapes/{run['id']}": lambda run=run: run for run in runs}
    replies["/api/landscapes"] = lambda: {"runs": listed, "job": job[0]}
    replies["/api/landscapes/new/expected"] = lambda: {"seconds": 250}
    started = {"id": "1", "verb": "landscape", "name": "new", "state": "running", "line": "12 of 121 points"}
    replies["/api/landscapes/new/start"] = lambda: job.__setitem__(0, started) or started
    replies["/api/landscapes/stop"] = lambda: job.__setitem__(0, None) or started

    def fulfil(route: Any) -> None:
        path = "/" + route.request.url.split("/", 3)[3]
        route.fulfill(content_type="application/json", body=json.dumps(replies[path]()))

    page.route("**/api/landscapes**", fulfil)
    page.route("**/api/landscapes/**", fulfil)


TURNS = """async () => {
  const [surface, canvas] = [document.querySelector('[role=application]'), document.querySelector('canvas')]
  const [frames, drawn] = [[], []]
  for (let turn = 0; turn < 30; turn++) {
    const start = performance.now()
    surface.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }))
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))
    frames.push(performance.now() - start)
    drawn.push(Number(canvas.dataset.frame))
  }
  const median = (list) => list.sort((a, b) => a - b)[15]
  return [median(drawn), median(frames)]
}"""


def test_two_surfaces_share_one_scale_and_turn_together(visit: Open) -> None:
    page = visit("").page
    answer(page, [None])
    page.evaluate("location.hash = '#/landscape?runs=flat,steep&scale=linear&elevation=0&azimuth=0'")
    expect(page.locator(CANVAS)).to_be_visible()
    cells = [
        [float(number) for number in one.split()] for one in points(saved(page, "Save the landscapes", "SVG"))[:3200]
    ]
    flat, steep = (
        max(cell[1] for cell in half) - min(cell[1] for cell in half) for half in (cells[:1600], cells[1600:])
    )
    assert 28 < steep / flat < 31
    drawn, frame = page.evaluate(TURNS)
    print(f"two surfaces of 41 x 41: drawn in {drawn:.1f} ms, {frame:.1f} ms from key to frame (medians of 30)")


def test_a_landscape_is_computed_as_a_job(visit: Open) -> None:
    page = visit("").page
    job: list[Any] = [None]
    answer(page, job)
    page.evaluate("location.hash = '#/landscape'")
    page.get_by_role("button", name="Compute: new").click()
    expect(page.locator("[data-expected]")).to_contain_text("4 minutes")
    assert job == [None]
    page.get_by_role("button", name="Start").click()
    expect(page.locator("[data-job=landscape]")).to_contain_text("12 of 121 points")
    assert page.get_by_role("button", name="Compute: new").is_disabled()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("[data-job]")).to_have_count(0)
    expect(page.get_by_role("alert")).to_contain_text("ended without a result")
