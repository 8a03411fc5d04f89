"""The page Patches shows the attention that the Python API computes, for samples, files, pasted images and drawings."""

import csv
import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import patchword
from support.lab.actions import draw, saved, saved_json
from support.lab.browser import Open, expect
from support.lab.vit_reference import exercise_folder

SAMPLE = exercise_folder() / "sample" / "029.png"
ANSWER = "[data-look=vit-exercise] [data-answer]"
MAP = "[data-map=first]"
GIVE = """([action, bytes]) => {
  const files = new DataTransfer()
  files.items.add(new File([new Uint8Array(bytes)], 'photo.png', { type: 'image/png' }))
  const options = { bubbles: true, cancelable: true, dataTransfer: files, clipboardData: files }
  const event = action === 'paste' ? new ClipboardEvent(action, options) : new DragEvent(action, options)
  document.body.dispatchEvent(event)
}"""


def ready(visit: Open, address: str = "#/patches", **options: Any) -> Any:
    page = visit(address, **options).page
    expect(page.locator("[data-look]").first).to_be_visible()
    return page


def everything(page: Any, name: str = "vit-exercise") -> Any:
    expect(page.locator(f"[data-look={name}][aria-busy=false]")).to_be_visible()
    return saved_json(page, f"Save all maps of {name}")


def photo(path: Path) -> Path:
    rows, columns = np.mgrid[0:200, 0:300]
    pixels = np.stack([rows, columns % 256, (rows * columns) % 256], -1).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def point(page: Any, x: int, y: int, click: bool = False) -> None:
    """Move the mouse to a pixel of the image of 28 x 28 in the large map."""
    box = page.locator(f"{MAP} image").first.bounding_box()
    side = box["width"] / 28
    at = box["x"] + (x + 0.5) * side, box["y"] + (y + 0.5) * side
    (page.mouse.click if click else page.mouse.move)(*at)


def assert_equal_to_python(found: Any, expected: Any) -> None:
    for layer, maps in zip(found["layers"], expected.maps, strict=True):
        assert np.abs(np.array(layer["maps"]).reshape(maps.shape) - maps).max() < 1e-5
    rollout = np.array(found["rollout"]["values"]).reshape(expected.rollout.shape)
    assert np.abs(rollout - expected.rollout).max() < 1e-5
    relevance = np.array(found["relevance"]["values"]).reshape(expected.relevance.shape)
    assert np.abs(relevance - expected.relevance).max() < 1e-5


@pytest.mark.parametrize("name", ["vit-exercise", "swin-mini", "cswin-mini", "pale-mini"])
def test_the_maps_are_those_of_the_python_api(visit: Open, name: str) -> None:
    page, model = ready(visit, f"#/patches?model={name}&sample=30"), patchword.pipeline(f"zoo:{name}")
    assert_equal_to_python(everything(page, name), model.attention(SAMPLE))
    (prediction,) = model(SAMPLE)
    assert page.locator(f"[data-look={name}] [data-answer]").get_attribute("data-answer") == prediction.label
    point(page, 10, 22, click=True)
    expect(page.locator(MAP)).to_contain_text("query: row 6, column 3")
    assert_equal_to_python(everything(page, name), model.attention(SAMPLE, at=(10, 22)))


def test_the_query_is_moved_by_mouse_and_keyboard(visit: Open) -> None:
    page = ready(visit)
    expect(page.locator(MAP)).to_contain_text("Layer 4, head 1, query: [CLS]")
    point(page, 13, 5)
    expect(page.locator(MAP)).to_contain_text("query: row 2, column 4")
    page.mouse.move(1, 1)
    expect(page.locator(MAP)).to_contain_text("query: [CLS]")
    point(page, 13, 5, click=True)
    page.locator(MAP).press("ArrowRight")
    page.locator(MAP).press("ArrowDown")
    page.mouse.move(1, 1)
    expect(page.locator(MAP)).to_contain_text("query: row 3, column 5")
    page.locator(MAP).press("Escape")
    expect(page.locator(MAP)).to_contain_text("query: [CLS]")
    sheet = page.locator("[data-sheet=first] use").nth(5 + 2).bounding_box()  # layer 2, head 3: five maps per layer
    page.mouse.click(sheet["x"] + 5, sheet["y"] + 5)
    expect(page.locator(MAP)).to_contain_text("Layer 2, head 3")
    expect(page.get_by_role("button", name="Layer 2", exact=True)).to_have_attribute("aria-pressed", "true")


def test_files_pasted_and_dropped_images_are_answered(visit: Open, tmp_path: Path) -> None:
    page, file = ready(visit), photo(tmp_path / "photo.png")
    (expected,) = patchword.pipeline("zoo:vit-exercise")(file)
    page.locator("#image-file").set_input_files(file)
    expect(page.locator(ANSWER)).to_have_attribute("data-answer", expected.label)
    found = everything(page)
    assert_equal_to_python(found, patchword.pipeline("zoo:vit-exercise").attention(file))
    for action in ("paste", "drop"):
        page.get_by_role("button", name="Samples").click()
        expect(page.locator(ANSWER)).to_have_attribute("data-answer", "Sneaker")
        page.evaluate(GIVE, [action, list(file.read_bytes())])
        expect(page.locator(ANSWER)).to_have_attribute("data-answer", expected.label)


def test_what_is_no_image_is_explained(visit: Open, tmp_path: Path) -> None:
    found = visit("#/patches")
    expect(found.page.locator("[data-look]")).to_be_visible()
    for name, content, message in [
        ("a.txt", b"words", "not an image file"),
        ("a.png", b"0" * 8_000_001, "more than 8 MB"),
        ("b.png", b"words", "not an image that can be read"),
    ]:
        (tmp_path / name).write_bytes(content)
        found.page.locator("#image-file").set_input_files(tmp_path / name)
        expect(found.page.get_by_role("alert")).to_contain_text(message)
    found.page.get_by_role("button", name="Samples").click()
    expect(found.page.locator(ANSWER)).to_have_attribute("data-answer", "Sneaker")
    expect(found.page.get_by_role("alert")).to_have_count(0)
    found.errors.clear()  # the browser reports the 422


def test_a_drawing_is_sent_to_two_models(visit: Open) -> None:
    page = ready(visit, "#/patches?with=resnet-mini")
    expect(page.get_by_text("resnet-mini has no attention: its convolutions")).to_be_visible()
    page.get_by_role("button", name="Draw", exact=True).click()
    draw(page)
    for name in ("vit-exercise", "resnet-mini"):
        expect(page.locator(f"[data-look={name}][aria-busy=false]")).to_be_visible()
        expect(page.locator(f"[data-look={name}] [data-answer]")).not_to_have_attribute("data-answer", "Sneaker")
    page.wait_for_timeout(300)
    pixels = np.array(everything(page)["pixels"]).reshape(28, 28)
    assert pixels[10, 11] == 255
    assert pixels[1].sum() == 0


def test_the_relevance_for_a_class(visit: Open) -> None:
    page = ready(visit, "#/patches?view=relevance&class=Bag")
    expect(page.locator(MAP)).to_contain_text("Relevance: Bag")
    assert_equal_to_python(everything(page), patchword.pipeline("zoo:vit-exercise").attention(SAMPLE, relevance="Bag"))
    page.get_by_label("Class", exact=True).select_option("Predicted class")
    expect(page.locator(MAP)).to_contain_text("Relevance: Sneaker")


def test_the_address_restores_the_view(visit: Open) -> None:
    address = "model=swin-mini&with=vit-exercise&sample=5&layer=2&head=mean&view=heads&query=9-22"
    page = ready(visit, f"#/patches?{address}")
    expect(page.locator("[data-look=vit-exercise]")).to_be_visible()
    for name, query in (("first", "row 12, column 5"), ("second", "row 6, column 3")):
        label = re.compile(f"^Layer 2, mean of the heads, query: {query}\\.")
        expect(page.locator(f"[data-map={name}]")).to_have_attribute("aria-label", label)
    expect(page.locator("[data-sample-label]")).to_have_text("Trouser")
    page.wait_for_timeout(400)  # the address follows after 200 ms
    assert page.evaluate("location.hash") == f"#/patches?{address}"
    page.evaluate("location.hash = '#/patches?model=digits-vit&view=distance'")
    expect(page.locator("[data-look=digits-vit] [data-figure=distance]")).to_be_visible()
    expect(page.locator("[data-look=vit-exercise]")).to_have_count(0)
    distances = saved_json(page, "Save the distances of digits-vit")["distances"]
    assert [len(one["heads"]) for one in distances] == [4, 4, 4, 4]


def test_every_view_is_saved(visit: Open) -> None:
    page = ready(visit)
    for group in ("the map of", "all maps of", "the prediction of"):
        svg = ElementTree.fromstring(saved(page, f"Save {group} vit-exercise", "SVG"))
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert saved(page, f"Save {group} vit-exercise", "PNG").startswith(b"\x89PNG")
        rows = list(csv.DictReader(io.StringIO(saved(page, f"Save {group} vit-exercise", "CSV").decode())))
        assert len(rows) == {"the map of": 49, "all maps of": 4 * 4 * 49, "the prediction of": 10}[group]
    attention = patchword.pipeline("zoo:vit-exercise").attention(SAMPLE)
    found = saved_json(page, "Save the map of vit-exercise")
    assert np.abs(np.array(found["weights"]).reshape(7, 7) - attention.maps[3][0]).max() < 1e-5


def test_a_large_model_is_asked_per_query_and_a_label_is_text(visit: Open) -> None:
    """The answer of the server is changed on its way, byte by byte: no weights of all queries, and a label of HTML."""

    def change(route: Any) -> None:
        response = route.fetch()
        body = response.body().replace(b"weights.", b"ignored.").replace(b"rollouts", b"ignoreds")
        route.fulfill(response=response, body=body.replace(b"Ankle boot", b"<b>boo</b>"))

    page = visit("#/cost").page
    page.route("**/api/look/**", change)
    page.evaluate("location.hash = '#/patches?sample=37&query=10-22'")
    expect(page.locator(ANSWER)).to_have_text("<b>boo</b>, 100.0 %")
    expect(page.locator("[data-sample-label]")).to_have_text("<b>boo</b>")
    assert page.locator("b", has_text="boo").count() == 1  # that of the sample's label, which is bold
    expect(page.locator(MAP)).to_contain_text("query: row 6, column 3")
    expected = patchword.pipeline("zoo:vit-exercise").attention(SAMPLE.with_name("036.png"), at=(10, 22))
    found = everything(page)
    for layer, maps in zip(found["layers"], expected.maps, strict=True):
        assert np.abs(np.array(layer["maps"]).reshape(maps.shape) - maps).max() < 1e-5
