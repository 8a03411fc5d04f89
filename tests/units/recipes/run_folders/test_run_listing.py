"""The list of runs: state, scores, time and size; a broken folder is listed with the reason."""

import json
import os

import pytest

from patchword.core.errors import UserError
from patchword.core.files import folder_bytes
from patchword.recipes.run_folders.listing import list_run_folders, summary_of
from patchword.training.lock.lock import exclusive, owner_of
from support.material import SCORE, copied_run, sealed


@pytest.fixture
def runs(trained, tmp_path):
    copied_run(trained, tmp_path / "done")
    copied_run(trained, tmp_path / "longer", evaluated=False, epochs=3)
    copied_run(trained, tmp_path / "study" / "vit-seed-0")
    (tmp_path / "study" / "results.json").write_text("{}")
    (tmp_path / "photos").mkdir()
    (tmp_path / ".done.7.deleted").mkdir()
    return tmp_path


def test_a_folder_is_listed_with_its_studies(runs):
    found = {run.name: run for run in list_run_folders(runs)}
    assert list(found) == ["done", "longer", "study/vit-seed-0"]
    done = found["done"]
    line = json.loads((runs / "done/metrics.jsonl").read_text())
    assert (done.kind, done.model, done.metric, done.part) == ("images", "vit-exercise", "accuracy", "test")
    assert (done.score, done.validation, done.seconds) == (SCORE, line["validation_accuracy"], line["seconds"])
    assert done.bytes == folder_bytes(runs / "done")
    assert [run.position() for run in found.values()] == ["finished", "stopped at epoch 1 of 3", "finished"]
    assert json.loads(json.dumps(done.to_json()))["state"] == "finished"


def test_a_trained_run_without_a_result_says_so(trained, tmp_path):
    run = summary_of(copied_run(trained, tmp_path / "run", evaluated=False), "run")
    assert (run.position(), run.score) == ("trained, not evaluated", None)


def test_a_running_run_is_seen_and_its_lock_is_left_alone(runs):
    assert owner_of(runs / "longer") is None
    with exclusive(runs / "longer"):
        text = (runs / "longer/.lock").read_text()
        assert owner_of(runs / "longer").process == os.getpid()
        assert summary_of(runs / "longer", "").position() == "running at epoch 1 of 3"
        assert (runs / "longer/.lock").read_text() == text
    assert summary_of(runs / "longer", "").state == "stopped"


def test_a_lock_of_another_machine_counts_while_it_is_touched(runs):
    with exclusive(runs / "done"):
        owner = json.loads((runs / "done/.lock").read_text())
    (runs / "done/.lock").write_text(json.dumps({**owner, "host": "elsewhere"}))
    assert summary_of(runs / "done", "").state == "running"
    os.utime(runs / "done/.lock", (0, 0))
    assert summary_of(runs / "done", "").state == "finished"


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("recipe.yaml", "kind: [", "cannot read the recipe"),
        ("recipe.yaml", "kind: images\nepoch: 3\nmodel: vit-exercise", "a recipe has no field 'epoch'"),
        ("recipe.yaml", None, "recipe.yaml is missing"),
        ("evaluation.json", '{"accuracy": ', "cannot read"),
        ("evaluation.json", "[3]", "expected an object"),
        ("evaluation.json", '{"metric": 3}', "metric: a text"),
        ("metrics.jsonl", '{"epoch": 1}\n', "'seconds'"),
    ],
)
def test_a_broken_run_is_listed_with_the_reason(runs, file, content, reason):
    (runs / "done" / file).unlink()
    if content is not None:
        (runs / "done" / file).write_text(content)
    sealed(runs / "done")
    broken = next(run for run in list_run_folders(runs) if run.name == "done")
    assert broken.state == "broken"
    assert reason in broken.problem
    assert broken.problem
    assert broken.bytes > 0


def test_a_cut_last_line_of_the_metrics_is_no_reason(runs):
    with (runs / "done/metrics.jsonl").open("a") as file:
        file.write('{"epoch": 2, "lo')
    assert summary_of(runs / "done", "").state == "finished"


def test_links_are_not_counted(runs):
    before = folder_bytes(runs / "done")
    (runs / "done/link").symlink_to(runs / "longer")
    assert folder_bytes(runs / "done") - before < 1000


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(UserError, match="there is no folder"):
        list_run_folders(tmp_path / "none")
