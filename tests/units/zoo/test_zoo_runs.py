"""A model of the zoo in the verbs that take a run: it is opened like a run, and nothing is written into its folder."""

import json
import shutil
from pathlib import Path

import pytest

import patchword
from patchword.api.run import Run
from patchword.core.errors import UserError
from patchword.zoo import entries
from support.toys.zoo_card import write_card_file


@pytest.fixture
def entry(trained: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of zoo:digits, a run of digits in an installed package patchword_zoo."""
    home = tmp_path / "site" / entries.PACKAGE
    shutil.copytree(trained, home / "digits")
    (home / "__init__.py").touch()
    write_card_file(home / "digits")
    monkeypatch.syspath_prepend(home.parent)
    monkeypatch.chdir(tmp_path)
    return home / "digits"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_is_evaluated_without_a_file_written(entry, command):
    before = contents(entry)
    code, printed, _ = command("evaluate", "zoo:digits", "--device", "cpu")
    assert code == 0
    assert "Test Accuracy (Overall)" in printed
    assert "report" not in printed
    score = patchword.evaluate("zoo:digits", device="cpu").score
    assert f"(Overall): {score:.2%}" in printed
    assert contents(entry) == before


def test_it_predicts_and_shows_attention(entry, command, tmp_path):
    from PIL import Image

    Image.new("L", (8, 8), 99).save(tmp_path / "one.png")
    code, printed, complaint = command("predict", "zoo:digits", "one.png", "--json")
    assert (code, json.loads(printed)["path"]) == (0, "one.png"), complaint
    code, _, complaint = command("attention", "zoo:digits", "one.png", "--out", "maps.png")
    assert (code, (tmp_path / "maps.png").is_file()) == (0, True), complaint
    assert patchword.pipeline("zoo:digits", device="cpu")("one.png")[0].label.isdigit()


@pytest.mark.parametrize("verb", ["sharpness", "robustness", "landscape"])
def test_a_verb_that_saves_in_the_run_asks_for_a_copy(entry, command, verb):
    before = contents(entry)
    code, _, complaint = command(verb, "zoo:digits", *(["--out", "here.png"] if verb == "landscape" else []))
    assert code == 2
    assert "nothing is saved" in complaint
    assert f"cp -r {entry} runs/digits" in complaint.replace("\n", " ")
    assert contents(entry) == before


def test_it_is_fine_tuned_into_a_run_of_ones_own(entry, tmp_path):
    before = contents(entry)
    settings = {"data": "digits", "epochs": 1, "device": "cpu"}
    run = patchword.train("finetune-images", model="zoo:digits", runs=tmp_path, name="mine", quiet=True, **settings)
    assert run.recipe().model.name == "zoo:digits"
    assert run.evaluation().score > 0.1
    assert contents(entry) == before


def test_a_run_is_no_entry(tmp_path):
    (tmp_path / "recipe.yaml").write_text("kind: images\nmodel: {name: vit-exercise}\n")
    Run(tmp_path).check_writable()
    with pytest.raises(UserError, match="is not a run"):
        Run(tmp_path / "none")
