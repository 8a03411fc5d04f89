"""train --dry-run and --find-lr: what is printed, as text and as JSON, and which options do not go together."""

import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

import patchword
from patchword.cli.app import app
from patchword.core.errors import UserError
from support.material import TINY_MODEL, everything_below
from support.tiny_texts import refusal

TRAIN = ("train", "digits-vit", *TINY_MODEL, "epochs=2", "batch_size=512", "device=cpu")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("patchword.tuning.dry_run.SECONDS", 0.0)
    monkeypatch.setattr("patchword.tuning.lr_finder.STEPS", 40)


def test_a_dry_run_prints_what_the_run_will_do(command):
    code, printed, complaint = command(*TRAIN, "--dry-run", "--name", "plan")
    assert (code, complaint) == (0, "")
    assert everything_below(Path()) == []
    heads = [line.split()[0] for line in printed.partition("estimates\n")[2].splitlines()]
    assert heads == ["data", "model", "steps", "MACs", "memory", "time", "disk", "decided"]
    assert "1,294 for training, 144 for validation; 10 classes: 0, 1, 2, 3, 4, ..." in printed
    assert "2 per epoch x 2 epochs = 4 steps (batch_size=512: samples per optimizer step)" in printed
    assert "in runs/plan" in printed
    assert "precision=float32" in printed


def test_a_dry_run_as_json(command):
    code, printed, _ = command(*TRAIN, "--dry-run", "--json")
    found = json.loads(printed)
    assert code == 0
    assert (found["steps"], found["decided"]) == (4, {"precision": "float32"})
    assert found["run"] == "runs/digits-vit"
    assert found["recipe"]["epochs"] == 2


def test_python_has_both(command):
    fields = {"epochs": 2, "batch_size": 512, "device": "cpu"} | dict(word.split("=") for word in TINY_MODEL)
    found = patchword.dry_run("digits-vit", seconds=0, **fields)
    assert found.steps == 4
    assert "4 steps" in found._repr_html_()
    ramp = patchword.find_lr("digits-vit", steps=10, **fields)
    assert len(ramp.rates) == 10
    assert "data:image/png" in ramp._repr_html_()
    with pytest.raises(UserError, match="is a study"):
        patchword.dry_run("fashion-mnist-families")


def test_a_learning_rate_is_found_drawn_and_told_how_to_use(command, monkeypatch):
    code, printed, complaint = command(*TRAIN, "learning_rate=0.5", "--find-lr", "--name", "mine")
    assert (code, complaint) == (0, "")
    assert everything_below(Path()) == [Path("mine-learning-rate.png")]
    with Image.open("mine-learning-rate.png") as image:
        assert image.width > image.height > 500
    rate = printed.partition("learning_rate=")[2].split()[0]
    assert 1e-5 < float(rate) < 1e-1
    assert f"patchword train digits-vit {' '.join(TRAIN[2:])} learning_rate={float(rate):g} --name mine" in printed
    assert "learning_rate=0.5" not in printed


def test_a_learning_rate_as_json(command):
    _, printed, _ = command(*TRAIN, "--find-lr", "--json")
    found = json.loads(printed)
    assert len(found["learning_rates"]) == len(found["losses"])
    assert Path(found["figure"]).is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dry-run", "--find-lr"), "cannot be combined: expected one of them"),
        (("--json",), "--json prints the result of --dry-run or --find-lr"),
        (("--dry-run", "--resume"), "--dry-run looks at a new run: expected no --resume"),
        (("--dry-run", "--seeds", "2"), "--dry-run looks at one run in one process"),
        (("--find-lr", "--processes", "2"), "--find-lr looks at one run in one process"),
    ],
)
def test_options_that_do_not_go_together(command, words, message):
    assert message in refusal(command, *TRAIN, *words)


def test_a_process_of_several_finds_no_learning_rate(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)  # e.g. of torchrun
    found = CliRunner().invoke(app, [*TRAIN, "--find-lr"])
    assert "--find-lr looks at one run in one process" in str(found.exception)


def test_a_study_has_no_dry_run(command):
    assert "expected a recipe, without --seeds" in refusal(command, "train", "fashion-mnist-families", "--dry-run")
