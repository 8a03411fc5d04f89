"""File names that are not UTF-8 and names of runs that lead elsewhere, on the command line."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import patchword
from support.helpers import tiny
from support.material import write_picture
from support.segmentation.segmenters import tiny_segmenter

ODD = os.fsdecode(b"caf\xe9.png")  # Latin-1
SHOWN = "caf\\xe9.png"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def predict(*words: object) -> subprocess.CompletedProcess:
    """Run `patchword predict` in a process of its own, whose output takes UTF-8 only."""
    command = [sys.executable, "-m", "patchword", "predict", *map(str, words), "--device", "cpu"]
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"}, check=False
    )
    assert "Traceback" not in done.stderr.decode()
    return done


def test_an_image_whose_name_is_not_utf8_has_an_answer_in_every_form(command):
    patchword.save(tiny("vit-exercise"), "model")
    write_picture(Path(ODD))
    Path(os.fsdecode(b"\xff.png")).write_bytes(b"nothing")
    files = ("--csv", "out.csv", "--jsonl", "out.jsonl")
    done = predict("model", ODD, os.fsdecode(b"\xff.png"), *files)
    assert done.returncode == 0, done.stderr
    assert b"cannot read the image \\" in done.stdout + done.stderr
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert [row["path"] for row in rows] == [SHOWN, "\\xff.png"]
    assert "cannot read the image" in rows[1]["error"]
    assert [json.loads(line)["path"] for line in Path("out.jsonl").read_text().splitlines()] == [SHOWN, "\\xff.png"]
    assert SHOWN in command("predict", "model", ODD, "--device", "cpu")[1]


def test_label_maps_of_such_an_image(command):
    patchword.save(tiny_segmenter(), "model")
    write_picture(Path(ODD), mode="RGB", size=(40, 40))
    code, output, _ = command("predict", "model", ODD, "--json", "--masks", "masks", "--device", "cpu")
    record = json.loads(output)
    assert (code, record["path"], record["mask"]) == (0, SHOWN, f"masks/{SHOWN}")
    assert (Path("masks") / ODD).is_file()


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/b", ".hidden", "..", "", "a\x1b[2K", "n" * 201])
@pytest.mark.parametrize("recipe", ["digits-vit", "sharpness-aware"])
def test_a_name_that_leaves_the_folder_of_runs_is_refused(command, recipe, name):
    code, _, error = command("train", recipe, "--name", name)
    assert (code, error.startswith("error: the name of a run: expected a name of at most 200 bytes")) == (2, True)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("recipe", ["digits-vit", "sharpness-aware"])
def test_a_folder_of_runs_whose_name_is_not_utf8_is_refused_before_training(command, recipe):
    code, output, error = command("train", recipe, "epochs=1", "--name", "a", "--runs", os.fsdecode(b"r\xff"))
    assert (code, output) == (2, "")
    assert "error: a run cannot be written there: expected a folder whose name is UTF-8, got r" in error
    assert list(Path().iterdir()) == []
