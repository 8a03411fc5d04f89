"""The page Landscape: what is saved in a run's folder is what the page draws, on one scale; jobs compute the rest."""

import json
import math
from pathlib import Path

import pytest
import torch

from patchword.analysis.sharpness.landscape import LossLandscape, places
from patchword.inspection.saved_landscape import FILE, read_landscape
from patchword.inspection.sharpness import weights_digest
from patchword.lab.jobs import BusyError, Jobs
from patchword.lab.landscapes import find_run, measured_runs, measures_json, seconds_of
from patchword.lab.models import list_models
from patchword.recipes.run import Run
from patchword.reports.landscape.axes import RunLandscape
from patchword.reports.landscape.saved import save_landscape
from patchword.weights.local_path import local_path
from support.lab.asgi import Caller, Response
from support.lab.node import run_node
from support.lab.page import caller

ZOO = local_path("zoo:vit-exercise")


def send(ask: Caller, address: str, body: object) -> Response:
    """Send a request with JSON."""
    return ask(address, "POST", {"content-type": "application/json"}, [json.dumps(body).encode()])


def trained(folder: Path, text: bool = False) -> Run:
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "recipe.yaml"):
        (folder / name).write_bytes((ZOO / name).read_bytes())
    if text:
        (folder / "recipe.yaml").write_text("kind: text\nmodel: {name: bert-mini}\ntask: classes\ntrain: a.csv\n")
    return Run(folder)


def keep(run: Run, losses: torch.Tensor, radius: float = 1.0) -> None:
    """Save a landscape as `patchword landscape` does."""
    accuracies = (-losses).exp().nan_to_num()
    found = LossLandscape(places(len(losses), radius), losses, accuracies)
    save_landscape(run, RunLandscape(run.folder.name, "8 of 9 images", "cross-entropy (nats)", True, found), "random")


def bowl(size: int, steep: float) -> torch.Tensor:
    at = places(size, 1.0)
    return 0.1 + steep * (at**2 + 0.5 * at[:, None] ** 2 + 0.3 * at * at[:, None])


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """The folder `runs` with two runs that have a landscape, and one that has none; it is in the working folder."""
    monkeypatch.chdir(tmp_path)
    keep(trained(tmp_path / "runs" / "flat"), bowl(5, 1.0))
    keep(trained(tmp_path / "runs" / "sharp"), bowl(7, 40.0))
    trained(tmp_path / "runs" / "new")
    return tmp_path / "runs"


@pytest.fixture
def ask(runs, page):
    return caller(page, list_models(["runs/sharp"]))


def test_the_answer_is_what_is_saved(ask, runs):
    found = ask("/api/landscapes/flat").json()
    kept = json.loads((runs / "flat" / FILE).read_text())
    for name in ("directions", "sample", "loss_name", "places", "loss", "accuracy"):
        assert found["landscape"][name] == kept[name]
    assert found["landscape"]["middle"]["loss"] == kept["loss"][2][2] == pytest.approx(0.1)
    assert (found["sharpness"], found["robustness"], found["older"]) == (None, None, [])


def test_given_runs_and_those_of_the_folder_are_listed_once(runs, page, tmp_path):
    keep(trained(tmp_path / "else" / "mine"), bowl(3, 1.0))
    keep(trained(runs / "set" / "a@b"), bowl(3, 1.0))
    ask = caller(page, list_models(["runs/sharp", str(tmp_path / "else" / "mine")]))
    found = {one["id"]: one for one in ask("/api/landscapes").json()["runs"]}
    zoo = {"zoo:vit-exercise", "zoo:resnet-mini"}  # those that have a landscape
    assert found.keys() - zoo == {"sharp", "flat", "new", "@mine", "set~1a~2b"}
    assert "zoo:vit-exercise" in found
    assert found["flat"]["has"] == {"landscape": True, "sharpness": False, "robustness": False}
    assert (found["new"]["can_compute"], found["zoo:vit-exercise"]["can_compute"]) == (True, False)
    for id in found:
        assert ask(f"/api/landscapes/{id}").json()["id"] == id


def test_the_zoo_has_an_example(models):
    one = measured_runs(models, Path("none"))["zoo:vit-exercise"]
    saved = read_landscape(one.run)
    assert saved is not None
    assert saved.belongs_to(one.run)
    loss, accuracy = saved.found.middle
    losses = saved.found.losses
    assert losses.shape == (21, 21)
    assert min(losses[0].min(), losses[-1].min()) > 10 * loss  # a valley with the model in it
    assert 0 < loss < 0.2
    assert accuracy > 0.9


def test_losses_that_are_not_finite_are_null(runs, page):
    losses = bowl(5, 1.0)
    losses[0, 0], losses[4, 4] = math.nan, math.inf
    keep(Run(runs / "flat"), losses)
    shown = caller(page, {})("/api/landscapes/flat").json()["landscape"]["loss"]
    assert (shown[0][0], shown[4][4]) == (None, None)
    assert shown[2] == losses[2].tolist()


def test_measures_of_earlier_weights_are_named_and_not_shown(runs, page):
    run = Run(runs / "flat")
    (run.folder / "sharpness.json").write_text('{"digest": "of other weights"}')
    robust = {"clean_accuracy": 0.9, "images": 9, "seed": 0, "corrupted": {"fog": {"1": 0.5, "2": 0.25}}, "sizes": {}}
    (run.folder / "robustness.json").write_text(json.dumps({**robust, "digest": weights_digest(run)}))
    found = caller(page, {})("/api/landscapes/flat").json()
    assert (found["older"], found["sharpness"]) == (["sharpness"], None)
    assert found["robustness"]["mean_corruption_accuracy"] == 0.375
    assert found["robustness"]["groups"] == {}
    with (run.folder / "model.safetensors").open("ab") as file:
        file.write(b" ")
    assert caller(page, {})("/api/landscapes/flat").json()["older"] == ["landscape", "sharpness", "robustness"]


def test_a_landscape_that_cannot_be_read_is_an_error_message(runs, page):
    for content in ("{}", '{"places": [0], "loss": [[1]], "accuracy": [1], "directions": "random"}'):
        (runs / "flat" / FILE).write_text(content)
        found = caller(page, {})("/api/landscapes/flat")
        assert (found.status, "cannot read" in found.json()["error"]["what"]) == (422, True)


@pytest.mark.parametrize("verb", ["landscape", "sharpness", "robustness"])
def test_a_computation_is_the_verb_of_the_command_line(ask, runs, monkeypatch, verb):
    started = []

    def start(self, verb, words, name="", about=None):
        started.append((verb, words, name, about))
        raise BusyError("one job runs at a time", got="train demo")

    monkeypatch.setattr(Jobs, "start", start)
    found = send(ask, "/api/landscapes/new/start", {"verb": verb, "size": 11, "samples": 64})
    assert (found.status, found.json()["error"]["got"]) == (422, "train demo")
    [(named, words, name, about)] = started
    assert (named, words[0], name, about) == (verb, str(runs / "new"), "new", {"run": "new"})
    options = {"landscape": ["--size", "11", "--samples", "64"], "sharpness": ["--samples", "64"]}
    assert words[1 : 1 + len(options.get(verb, ()))] == options.get(verb, [])


@pytest.mark.parametrize(
    ("id", "body", "status"),
    [
        ("new", {"verb": "train"}, 422),
        ("new", {"verb": "landscape", "size": 20}, 422),
        ("new", {"verb": "landscape", "size": 999}, 422),
        ("new", {"verb": "landscape", "samples": 10**9}, 422),
        ("new", {"verb": "landscape", "out": "/tmp/x"}, 422),
        ("zoo:vit-exercise", {"verb": "landscape"}, 422),
        ("..%2fruns%2fnew", {"verb": "landscape"}, 404),
        ("nothing", {"verb": "landscape"}, 404),
    ],
)
def test_what_cannot_be_computed_starts_nothing(ask, runs, id, body, status):
    assert send(ask, f"/api/landscapes/{id}/start", body).status == status
    assert not (runs / ".lab").exists()


def test_a_run_on_texts_has_no_robustness(runs, page):
    trained(runs / "words", text=True)
    found = send(caller(page, {}), "/api/landscapes/words/start", {"verb": "robustness"})
    assert (found.status, "on texts" in found.json()["error"]["what"]) == (422, True)


def test_the_expected_time_grows_with_the_work(ask, runs):
    def expected(**fields):
        return send(ask, "/api/landscapes/new/expected", {"verb": "landscape", **fields}).json()["seconds"]

    few, many = expected(size=11, samples=256), expected(size=41, samples=256)
    one = find_run(measured_runs({}, runs), "new")
    assert few == seconds_of(one, "landscape", 11, 256)
    assert many - 15 == pytest.approx((few - 15) * 41**2 / 11**2, rel=0.05)


def test_only_jobs_of_this_page_are_stopped(ask, runs):
    assert send(ask, "/api/landscapes/stop", {"job": "20260101-000000-train-abcdef"}).status == 404


VERTICES = """(page, given) => {
  const found = given.views.map((view) => given.all.map((one) => {
    const scene = page.sceneOf(given.all, given.value, given.height)
    const mesh = scene.meshes.find((each) => each.name === one.name)
    const project = page.projection(view)
    const corners = [...mesh.corners]
    const flat = []
    for (let index = 0; index < corners.length; index += 3) flat.push(project(...corners.slice(index, index + 3)))
    return { corners, flat, low: scene.scale.low, high: scene.scale.high, isLog: scene.scale.isLog }
  }))
  return found
}"""
VIEWS = [{"azimuth": 0, "elevation": 0}, {"azimuth": 90, "elevation": 0}, {"azimuth": 35, "elevation": 90}]


@pytest.mark.parametrize("height", ["linear", "log"])
def test_the_surfaces_are_the_saved_numbers_on_one_scale(tmp_path, runs, height):
    found = measured_runs({}, runs)
    all = [{"name": name, "landscape": measures_json(found[name])["landscape"]} for name in ("flat", "sharp")]
    given = {"all": all, "value": "loss", "height": height, "views": VIEWS}
    answers = run_node(tmp_path, "surface.js", VERTICES, given)
    losses = [torch.tensor(one["landscape"]["loss"], dtype=torch.float64) for one in all]
    low, high = min(float(one.min()) for one in losses), max(float(one.max()) for one in losses)
    of = (lambda value: value.log()) if height == "log" else (lambda value: value)
    ends = [float(of(torch.tensor(end, dtype=torch.float64))) for end in (low, high)]
    for view, shown in zip(VIEWS, answers, strict=True):
        for one, loss, mesh in zip(all, losses, shown, strict=True):
            assert (mesh["low"], mesh["high"], mesh["isLog"]) == (low, high, height == "log")
            corners = torch.tensor(mesh["corners"], dtype=torch.float64).view(*loss.shape, 3)
            assert (corners[..., 2] - (of(loss) - ends[0]) / (ends[1] - ends[0])).abs().max() < 1e-12
            at = torch.tensor(one["landscape"]["places"], dtype=torch.float64)
            assert torch.equal(corners[..., 0], at.expand_as(loss))
            assert torch.equal(corners[..., 1], at[:, None].expand_as(loss))
            assert mesh["corners"] == answers[0][all.index(one)]["corners"]  # turning changes only the view
            flat = torch.tensor(mesh["flat"], dtype=torch.float64).view(*loss.shape, 2)
            angle, tilt = math.radians(view["azimuth"]), math.radians(view["elevation"])
            x, y, z = corners.unbind(-1)
            across = x * math.cos(angle) - y * math.sin(angle)
            away = x * math.sin(angle) + y * math.cos(angle)
            up = (z - 0.5) * 1.25 * math.cos(tilt) + away * math.sin(tilt)
            assert (flat - torch.stack([across, -up], -1)).abs().max() < 1e-12


ORDER = """(page, given) => {
  const scene = page.sceneOf(given.all, 'loss', 'auto')
  const look = { text: '#000', quiet: '#000', line: '#000', ground: '#fff', size: 16 }
  return given.azimuths.map((azimuth) => {
    const view = { azimuth, elevation: 30 }
    const shapes = page.shapesOf(scene, page.frameOf(1, 800, 16), view, false, look)
    return shapes.filter((one) => one.kind === 'polygon').map((one) => one.fill).slice(0, 36)
  })
}"""


def test_cells_are_painted_back_to_front(tmp_path, runs):
    run = Run(runs / "sharp")
    one = {"name": "sharp", "landscape": measures_json(measured_runs({}, runs)["sharp"])["landscape"]}
    assert len(read_landscape(run).found.places) == 7
    facing = run_node(tmp_path, "surface.js", ORDER, {"all": [one], "azimuths": [45, 225]})
    assert facing[0] == facing[1][::-1]  # seen from the other side, in the opposite order
