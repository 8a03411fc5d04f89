"""The page Runs: runs are compared, followed while they train, started, stopped and resumed with the same bits."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

from support.lab.actions import saved, saved_json
from support.lab.browser import Open, Visit, expect
from support.lab.runs import CLASSES, add_epoch, matrix, write_run
from support.material import differing

LONG = 240_000  # milliseconds that a training may take on a busy machine
FIELDS = {"epochs": "20", "model.depth": "1", "model.dropout": "0.1", "augmentation.shift": "1"}

HOLD_RECIPES = """() => {
  const fetched = window.fetch
  window.fetch = (path, options) =>
    path === '/api/recipes' ? new Promise((resolve) => { window.answerRecipes = resolve }) : fetched(path, options)
}"""


class RunsLab:
    """A lab in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, folder / "runs"
        command = [sys.executable, "-u", "-m", "patchword", "lab", "--no-browser", "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
        assert self.process.stdout is not None
        found = next((url for line in self.process.stdout if (url := re.search(r"http://\S+", line))), None)
        assert found, "the lab named no address"
        self.address = found[0]
        self.origin = f"{urlsplit(self.address).scheme}://{urlsplit(self.address).netloc}"


@pytest.fixture(scope="module")
def own_lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunsLab]:
    """A lab with three written runs."""
    folder = tmp_path_factory.mktemp("lab")
    write_run(folder / "runs" / "first", epochs=4)
    write_run(folder / "runs" / "second", epochs=3, sam=0.1)
    write_run(folder / "runs" / "half", epochs=9, done=2, finished=False)
    lab = RunsLab(folder)
    yield lab
    lab.process.terminate()
    lab.process.wait(timeout=20)


@pytest.fixture
def at(visit: Open, own_lab: RunsLab) -> Any:
    """Opens an address of that lab."""

    def open_page(address: str, **options: Any) -> Visit:
        return visit(address, origin=own_lab.origin, start=own_lab.address, **options)

    return open_page


def shown(page: Any) -> list[str]:
    return [str(one.get_attribute("data-legend")) for one in page.locator("[data-legend]").all()]


def test_runs_are_compared(at: Any) -> None:
    page = at("#/runs?runs=first~~second").page
    expect(page.locator("[data-legend=second]")).to_be_visible()
    assert shown(page) == ["first", "second"]
    rows = list(csv.DictReader(io.StringIO(saved(page, "Save the loss", "CSV").decode())))
    assert [(row["run"], row["epoch"], float(row["score"])) for row in rows][:5] == [
        *(("first", str(epoch), 1 - 0.5 / epoch) for epoch in (1, 2, 3, 4)),
        ("second", "1", 0.5),
    ]
    curves = saved_json(page, "Save the loss")
    assert len(curves[0]["training"]) == 40
    assert curves[1]["validation"] == [[1, 1], [2, 0.5], [3, 1 / 3]]
    page.get_by_role("button", name="step", exact=True).click()
    assert saved_json(page, "Save the score")[1]["validation"][0] == [10, 0.5]
    for group in ("Save the loss", "Save the score", "Save the confusion matrix"):
        svg = ElementTree.fromstring(saved(page, group, "SVG"))
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert saved(page, group, "PNG").startswith(b"\x89PNG")
    page.get_by_role("button", name="Settings").click()
    expect(page.locator("[data-setting=sam]")).to_contain_text("0.1")
    assert page.locator("[data-setting]").count() == 2  # epochs and sam
    page.get_by_text("Curves as a table").click()
    expect(page.locator("tbody tr", has_text="second").first).to_contain_text("0.5000")
    page.wait_for_timeout(400)  # the address follows after 200 ms
    restored = at(page.evaluate("location.hash")).page
    expect(restored.locator("[data-setting=sam]")).to_be_visible()
    expect(restored.get_by_role("button", name="step", exact=True)).to_have_attribute("aria-pressed", "true")


def test_the_confusion_matrix_follows_its_slider(at: Any) -> None:
    page = at("#/runs?runs=first&epoch=2").page
    slider = page.locator("#confusion-epoch")
    expect(slider).to_have_attribute("aria-valuetext", "validation, epoch 2")
    found = saved_json(page, "Save the confusion matrix")
    assert (found["epoch"], found["classes"], found["counts"]) == (2, CLASSES, matrix(2)["confusion"])
    slider.press("ArrowRight")
    assert saved_json(page, "Save the confusion matrix")["counts"] == matrix(3)["confusion"]
    slider.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "test set, best weights")
    expect(page.locator(".pairs tbody tr").first).to_have_text("owldog325.0 %")


def test_a_run_without_a_test_set_shows_its_validation(at: Any, own_lab: RunsLab) -> None:
    folder = write_run(own_lab.runs / "untested", epochs=2)
    result = json.loads((folder / "evaluation.json").read_text("utf-8"))
    (folder / "evaluation.json").write_text(json.dumps(result | {"part": "validation"}), "utf-8")
    page = at("#/runs?runs=untested").page
    expect(page.locator("#confusion-epoch")).to_have_attribute("aria-valuetext", "validation set, best weights")
    page.goto("about:blank")  # a page that follows a run would meet its end
    shutil.rmtree(folder)


def test_mistakes_have_their_images(at: Any) -> None:
    found = at("#/runs?runs=first&view=mistakes")
    image = found.page.get_by_role("img", name="Example 7: cat")
    expect(image).to_be_visible()
    expect(found.page.get_by_text("a text")).to_be_visible()
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 8
    assert not found.violations()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_with_runs_and_form(at: Any, theme: str) -> None:
    found = at("#/runs?runs=first~~second~~half&form=start", theme=theme)
    expect(found.page.locator("#start-epochs")).to_be_visible()
    expect(found.page.locator("[data-figure=confusion]")).to_be_visible()
    found.page.get_by_text("All fields").click()
    assert not found.violations()


@pytest.mark.parametrize("size", [(1366, 768), (3840, 2160), (390, 844)])
@pytest.mark.parametrize("projector", [False, True])
def test_runs_and_form_fit_the_window(at: Any, size: tuple[int, int], projector: bool) -> None:
    found = at("#/runs?runs=first~~second~~half&form=start", size=size, projector=projector)
    expect(found.page.locator("#start-epochs")).to_be_visible()
    expect(found.page.locator("[data-figure=confusion]")).to_be_visible()
    assert found.overflow() <= 0


def test_a_run_is_followed_and_may_disappear(at: Any, own_lab: RunsLab) -> None:
    """The lines that a training would write reach the curves; a deleted folder leaves the others."""
    folder = write_run(own_lab.runs / "growing", epochs=9, done=1, finished=False)
    found = at("#/runs?runs=growing~~first")
    curve = found.page.locator("[data-training=growing]").first
    expect(curve).to_have_attribute("data-points", "10")
    add_epoch(folder, 2)
    expect(curve).to_have_attribute("data-points", "20")
    expect(found.page.locator("[data-legend=growing]")).to_contain_text("stopped at epoch 2 of 9")
    shutil.rmtree(folder)
    expect(found.page.locator("[data-legend=growing]")).to_have_count(0)
    expect(found.page.locator("[data-run=growing]")).to_have_count(0)
    assert shown(found.page) == ["first"]
    found.errors[:] = [error for error in found.errors if "404" not in error]  # asked before the page knew


def test_the_form_drops_an_answer_that_comes_after_it_was_left(at: Any) -> None:
    page = at("#/cost").page
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    page.evaluate(HOLD_RECIPES)
    page.evaluate("location.hash = '#/runs?runs=&form=start'")
    expect(page.locator("#start-recipe")).to_be_visible()
    page.evaluate("location.hash = '#/cost'")
    expect(page.locator("[data-check=agrees]")).to_be_visible()
    page.evaluate("answerRecipes(Response.json({ recipes: [], processes: 1 }))")
    page.evaluate("new Promise((resolve) => setTimeout(resolve))")  # warnings of the answer come before this


def test_a_wrong_field_is_explained_by_the_form(at: Any, own_lab: RunsLab) -> None:
    found = at("#/runs?runs=first&form=start")
    page = found.page
    page.locator("#start-epochs").fill("0")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("recipe field 'epochs'")
    assert not (own_lab.runs / ".lab").exists() or not list((own_lab.runs / ".lab" / "jobs").glob("*train*"))
    found.errors.clear()  # the browser reports the 422


def test_a_training_is_started_stopped_and_resumed_with_the_same_bits(at: Any, own_lab: RunsLab) -> None:
    settings = [f"{name}={value}" for name, value in FIELDS.items()]
    command = [sys.executable, "-m", "patchword", "train", "digits-vit", *settings, "--name", "whole"]
    whole = subprocess.Popen([*command, "--runs", str(own_lab.folder / "reference")], stdout=subprocess.DEVNULL)
    page = at("#/runs?runs=&form=start").page
    page.get_by_text("All fields").click()
    for name, value in FIELDS.items():
        page.locator(f"[id='start-{name}']").fill(value)
    page.locator("#start-name").fill("mine")
    page.get_by_role("button", name="Start", exact=True).press("Enter")
    curve = page.locator("[data-training=mine]").first
    expect(curve).to_have_attribute("data-points", re.compile(r"^[2-9]\d*$"), timeout=LONG)
    before = int(curve.get_attribute("data-points"))
    expect(curve).not_to_have_attribute("data-points", str(before), timeout=LONG)
    assert int(curve.get_attribute("data-points")) > before
    page.get_by_role("button", name="Stop").press("Enter")
    expect(page.locator("[data-job-state=stopped]")).to_be_visible(timeout=LONG)
    assert not (own_lab.runs / "mine" / "finished.json").exists()
    page.get_by_role("button", name="Resume").click(timeout=LONG)
    expect(page.locator("[data-run=mine][data-state=finished]")).to_be_visible(timeout=LONG)
    page.get_by_text("Output").click()
    expect(page.locator("pre")).to_contain_text("resuming from epoch", timeout=LONG)
    page.get_by_role("button", name="Mistakes").click()
    expect(page.locator("ol img").first).to_be_visible()
    assert whole.wait(timeout=LONG / 1000) == 0
    weights = [
        folder / "model.safetensors" for folder in (own_lab.runs / "mine", own_lab.folder / "reference" / "whole")
    ]
    assert not differing(*weights)
