"""Damaged small files of a run are errors that name the file, and damaged metrics do not stop a training."""

import io
import json
import shutil

import pytest
from rich.console import Console

from patchword.core.errors import UserError
from patchword.recipes.run import Run
from patchword.recipes.run_folders.records import DATA, EVALUATION, MACHINE, read_record
from patchword.recipes.train import train
from support.material import silent, tiny_recipe

RECIPE = tiny_recipe("epochs=1", "keep_checkpoints=true")
NO_OBJECTS = ["[]", "null", "3", '"text"', "", "{", "\xff", '{"a": 1, "a": 2}', "[" * 100_000]


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    """A run of one epoch, which is not evaluated yet."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(RECIPE, folder, silent())
    return folder


@pytest.fixture
def run(trained_once, tmp_path):
    return shutil.copytree(trained_once, tmp_path / "run")


@pytest.mark.parametrize("content", NO_OBJECTS)
@pytest.mark.parametrize("name", [DATA, MACHINE, EVALUATION])
def test_a_damaged_record_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match=name):
        read_record(tmp_path, name)


@pytest.mark.parametrize("field", ["samples", "name", "class_counts", "skipped"])
@pytest.mark.parametrize("value", [[], True])
def test_a_field_of_another_kind_is_named(tmp_path, field, value):
    (tmp_path / DATA).write_text(json.dumps({field: value}))
    with pytest.raises(UserError, match=f"{field}: a"):
        read_record(tmp_path, DATA)


def test_no_record_is_empty(tmp_path):
    assert read_record(tmp_path, DATA) == {}


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe\n", b"[1]\n", b"{}\n", b'{"epoch": "one"}\n', b'{"epoch": 1, "loss": "low"}\n', b"{" * 9999 + b"\n"],
)
def test_lines_of_metrics_that_are_none_are_moved_and_said(run, line):
    path = run / "metrics.jsonl"
    good = path.read_bytes()
    path.write_bytes(line + good + line)
    assert [record["epoch"] for record in Run(run).metrics()] == [1]
    said = io.StringIO()
    assert train(RECIPE, run, Console(file=said, width=200), resume=True)
    assert path.read_bytes() == good
    assert (run / "metrics-broken.jsonl").read_bytes() == line + line
    assert "2 lines of metrics.jsonl cannot be read and moved to metrics-broken.jsonl" in said.getvalue()


def test_an_incomplete_last_line_is_left_by_a_kill_and_not_worth_a_word(run):
    path = run / "metrics.jsonl"
    good = path.read_bytes()
    path.write_bytes(good + b'{"epoch": 2, "lo')
    assert train(RECIPE, run, silent(), resume=True)
    assert path.read_bytes() == good
    assert not (run / "metrics-broken.jsonl").exists()


def test_a_lock_that_is_a_folder_is_an_error(run):
    (run / ".lock").unlink()
    (run / ".lock").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        train(RECIPE, run, silent(), resume=True)


def test_a_temporary_file_of_ones_own_stays(run):
    (run / ".mine.tmp").write_text("mine")
    (run / ".config.json.4000000.tmp").write_text("left by a kill")
    assert train(RECIPE, run, silent(), resume=True)
    assert (run / ".mine.tmp").is_file()
    assert not (run / ".config.json.4000000.tmp").exists()


def test_a_segmenter_has_an_accuracy_per_class(tmp_path):
    (tmp_path / "evaluation.json").write_text('{"metric": "mean_iou", "accuracy": {"Coat": 0.5}}')
    assert read_record(tmp_path, "evaluation.json")["accuracy"] == {"Coat": 0.5}
