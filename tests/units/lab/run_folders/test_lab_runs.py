"""The routes of the page Runs: the list, one run, its images; what is missing or broken is left out."""

import io
import json
import shutil
import subprocess
import sys

import pytest
from PIL import Image

from patchword.inspection.sharpness import weights_digest
from patchword.lab.app import LabSettings, build_app
from patchword.lab.bundle import read_bundle
from patchword.lab.jobs import Jobs
from patchword.lab.models import list_models
from patchword.lab.run_folders.feed import Feed
from patchword.lab.run_folders.listing import LabRuns
from patchword.recipes.run import Run
from patchword.serving.access import Access
from patchword.training.lock.lock import exclusive
from patchword.training.lock.lock_owner import LockOwner
from support.lab.asgi import Caller
from support.lab.runs import CLASSES, matrix, write_run


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    write_run(folder / "done")
    write_run(folder / "half", epochs=5, done=2, finished=False, sam=0.1)
    write_run(folder / "study" / "seed 0~")
    (folder / "broken").mkdir()
    (folder / "broken" / "recipe.yaml").write_text("kind: [")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "recipe.yaml").touch()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "recipe.yaml").write_text("secret")
    return folder


@pytest.fixture
def call(page, runs, tmp_path):
    """Sends requests to a lab of these runs, and of one that is given on the command line."""
    access, given = Access(8765), list_models([str(write_run(tmp_path / "other" / "mine"))])
    app = build_app(LabSettings(access, read_bundle(page), given, runs=runs))
    return Caller(app, {"host": "127.0.0.1:8765", "cookie": f"{access.cookie}={access.token}"})


def listed(call):
    return {row["id"]: row for row in call("/api/runs").json()["runs"]}


def test_all_runs_are_listed_by_id(call, runs, tmp_path):
    found = listed(call)
    assert set(found) == {"done", "half", "study~1seed 0~0", "broken", "@mine"}
    assert [found[id]["state"] for id in ("done", "half", "broken")] == ["finished", "stopped", "broken"]
    half = found["half"]
    assert (half["epoch"], half["epochs"], half["metric"], half["validation"]) == (2, 5, "accuracy", 0.75)
    assert found["done"]["score"] == 0.75
    assert str(tmp_path / "other") not in json.dumps(found)
    with exclusive(runs / "half"):
        row = listed(call)["half"]
        assert (row["state"], row["position"]) == ("running", "running at epoch 2 of 5")
        assert "process" in row["holder"]


def test_a_killed_training_is_stopped(call, runs):
    code = "import sys, time; from pathlib import Path; from patchword.training.lock.lock import exclusive\n"
    code += "with exclusive(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, str(runs / "half")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as training:
        training.stdout.readline()
        assert listed(call)["half"]["state"] == "running"
        training.kill()
    row = listed(call)["half"]
    assert (row["state"], row["position"], row["holder"]) == ("stopped", "stopped at epoch 2 of 5", "")


def test_a_long_list_is_read_in_parts(call, monkeypatch):
    monkeypatch.setattr("patchword.lab.run_folders.listing.READING_SECONDS", 0)
    assert {row["state"] for row in listed(call).values()} == {"reading"}
    monkeypatch.setattr("patchword.lab.run_folders.listing.READING_SECONDS", 60)
    assert listed(call)["done"]["state"] == "finished"
    monkeypatch.setattr("patchword.lab.run_folders.listing.READING_SECONDS", 0)
    assert listed(call)["done"]["state"] == "finished"


def test_the_list_follows_the_folders(call, runs):
    listed(call)
    shutil.rmtree(runs / "done")
    write_run(runs / "new", epochs=1)
    found = listed(call)
    assert "done" not in found
    assert found["new"]["epochs"] == 1
    assert call("/api/runs/done").status == 404
    shutil.rmtree(runs)
    assert set(listed(call)) == {"@mine"}


def test_one_run_has_its_curves_result_and_mistakes(call):
    found = call("/api/runs/done").json()
    assert found["run"]["name"] == "done"
    assert found["recipe"]["epochs"] == 3
    assert found["recipe"]["model.image"] == 8
    assert [record["epoch"] for record in found["metrics"]] == [1, 2, 3]
    assert len(found["steps"]) == 30
    assert (found["metric"], found["classes"], found["test"]) == ("accuracy", CLASSES, matrix(9)["confusion"])
    assert [one["counts"] for one in found["confusion"]] == [matrix(epoch)["confusion"] for epoch in (1, 2, 3)]
    assert [(one["truth"], one["predicted"], one["image"]) for one in found["mistakes"]] == [
        ("cat", "owl", True),
        ("dog", "cat", False),
    ]
    assert call("/api/runs/study~1seed 0~0".replace(" ", "%20")).json()["run"]["name"] == "study/seed 0~"
    assert call("/api/runs/@mine").json()["run"]["name"] == "mine"


def test_the_image_of_a_mistake_is_a_png(call):
    found = call("/api/runs/done/mistakes/0")
    assert found.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(found.body)).getpixel((3, 3)) == 200
    for path in ("done/mistakes/1", "done/mistakes/99", "half/mistakes/0", "done/mistakes/x", "done/mistakes/-1"):
        assert call(f"/api/runs/{path}").status == 404


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "steps.jsonl", "confusion.jsonl", "evaluation.json", "mistakes.json", "recipe.yaml"]
)
@pytest.mark.parametrize("content", [None, b"", b'{"epoch": 1, "st', b"[1, 2]", b"\xff\xfe\n", b"null\n"])
def test_a_torn_or_missing_file_leaves_the_rest(call, runs, name, content):
    path = runs / "done" / name
    path.unlink() if content is None else path.write_bytes(content)
    found = call("/api/runs/done")
    assert found.status == 200
    assert call("/api/runs").status == 200
    if name != "metrics.jsonl":
        assert len(found.json()["metrics"]) == 3


def test_numbers_that_are_not_finite_are_null(call, runs):
    with (runs / "half" / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 3, "step": 30, "loss": NaN, "validation_loss": Infinity, "validation_accuracy": 0.1}\n')
    last = call("/api/runs/half").json()["metrics"][-1]
    assert (last["loss"], last["validation_loss"]) == (None, None)


@pytest.mark.parametrize(
    "id",
    [
        *("..", ".", "%2e%2e", "..~1secret", "~1etc", "%2fetc", "../secret", ".hidden", "study~1..~1done", "done~1"),
        *("@secret", "@..", "a~1b~1c", "%00", "x" * 3000, "study", "done%00", "~", "~3", "done/..%2fdone"),
    ],
)
def test_an_id_is_no_path(call, id):
    for path in (f"/api/runs/{id}", f"/api/runs/{id}/mistakes/0", f"/api/runs/{id}/events"):
        found = call(path)
        assert found.status == 404
        assert b"secret" not in found.body.replace(b"..~1secret", b"").replace(b"@secret", b"")


def test_long_curves_and_large_matrices_are_thinned(call, runs):
    with (runs / "half" / "steps.jsonl").open("w") as file:
        file.writelines(f'{{"step":{step},"epoch":1,"loss":1}}\n' for step in range(1, 3902))
    counts = [[1] * 50] * 50
    with (runs / "half" / "confusion.jsonl").open("w") as file:
        file.writelines(json.dumps({"epoch": epoch, "counts": counts}) + "\n" for epoch in range(1, 301))
    found = call("/api/runs/half").json()
    steps = [record["step"] for record in found["steps"]]
    assert (len(steps), steps[0], steps[-1]) == (2000, 1, 3901)
    epochs = [record["epoch"] for record in found["confusion"]]
    assert (len(epochs), epochs[0], epochs[-1]) == (80, 1, 300)


DEEP = "[" * 900 + "]" * 900
HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", '{"epoch": 1, "validation_loss": NaN, "validation_accuracy": NaN, "seconds": Infinity}'),
        ("metrics.jsonl", '{"epoch": Infinity}'),
        ("metrics.jsonl", '{"epoch": null}'),
        ("metrics.jsonl", f'{{"epoch": 1, "seconds": {HUGE}}}'),
        ("metrics.jsonl", f'{{"epoch": 1, "seconds": 1, "validation_accuracy": {HUGE}}}'),
        ("metrics.jsonl", f'{{"epoch": 1, "seconds": 1, "a": {DEEP}}}'),
        ("metrics.jsonl", "[" * 100_000),
        ("steps.jsonl", f'{{"step": 1, "a": {DEEP}}}'),
        ("evaluation.json", f'{{"accuracy": {HUGE}}}'),
        ("evaluation.json", f'{{"a": {DEEP}}}'),
        ("recipe.yaml", 'a: !!int ""'),
        ("recipe.yaml", 'a: !!timestamp "x"'),
        ("recipe.yaml", "kind: <script>alert(1)</script>"),
        ("mistakes.json", '[{"index": 1, "truth": 5, "predicted": [], "confidence": 1, "image": "", "text": 7}]'),
        (".lock", "[" * 100_000),
        (".lock", "\xff"),
        (".lock", json.dumps({**vars(LockOwner.this()), "process": "x"})),
        (".lock", json.dumps({**vars(LockOwner.this()), "process": 2**80})),
        ("landscape.json", '{"places": [], "loss": [], "accuracy": []}'),
        ("sharpness.json", '{"sample": 5}'),
        ("sharpness.json", "DIGEST"),
        ("robustness.json", '{"corrupted": {"blur": {}}, "sizes": {}, "clean_accuracy": 1, "images": 1, "seed": 1}'),
        ("robustness.json", '{"corrupted": {}, "sizes": {}, "clean_accuracy": 1, "images": 1e999, "seed": 1}'),
        ("robustness.json", '{"corrupted": {}, "sizes": {}, "clean_accuracy": NaN, "images": 1, "seed": 1}'),
    ],
)
def test_a_bad_file_of_one_run_breaks_neither_the_list_nor_the_stream(call, runs, name, content):
    folder = runs / "done"
    digest = f'{{"digest": "{weights_digest(Run(folder))}"}}'
    (folder / name).write_bytes(content.replace("DIGEST", digest).encode("latin-1"))
    assert set(listed(call)) == {"done", "half", "study~1seed 0~0", "broken", "@mine"}
    assert call("/api/runs/done").status == 200
    assert call("/api/landscapes").status == 200
    assert call("/api/landscapes/done").status in (200, 422)
    lab_runs = LabRuns(runs, {}, Jobs(runs))
    assert '"run":"half"' in Feed(lab_runs, ["done", "half"]).poll()


def test_a_diverged_training_is_in_the_list_without_its_scores(call, runs):
    line = '{"epoch": 1, "validation_loss": NaN, "validation_accuracy": NaN, "seconds": Infinity}'
    (runs / "half" / "metrics.jsonl").write_text(line)
    row = listed(call)["half"]
    assert (row["epoch"], row["validation"], row["seconds"]) == (1, None, None)


def test_a_folder_that_cannot_be_read_hides_no_other(call, runs, monkeypatch):
    (runs / "closed").mkdir()
    exists = type(runs).exists

    def refused(path, *given):
        if path.parent.name == "closed":
            raise PermissionError(13, "denied")
        return exists(path, *given)

    monkeypatch.setattr(type(runs), "exists", refused)
    assert set(listed(call)) == {"done", "half", "study~1seed 0~0", "broken", "@mine"}
    assert call("/api/landscapes").status == 200


def test_links_in_a_circle_and_files_in_place_of_a_run(call, runs):
    (runs / "circle").symlink_to(runs / "circle")
    (runs / "above").symlink_to(runs)
    shutil.rmtree(runs / "done")
    (runs / "done").symlink_to(runs / "done")
    shutil.rmtree(runs / "half")
    (runs / "half").write_text("a file")
    assert set(listed(call)) == {"study~1seed 0~0", "broken", "@mine"}
    for id in ("circle", "above", "done", "half", "above~1study", "half~1x"):
        assert call(f"/api/runs/{id}").status == 404
