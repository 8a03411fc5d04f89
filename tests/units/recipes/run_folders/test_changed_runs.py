"""A changed file is an error wherever a run is opened: nothing is computed from it, and nothing is overwritten."""

import json
import shutil
import warnings
from pathlib import Path

import pytest

import patchword
from patchword.api.training import train_recipe
from patchword.core.errors import UnsealedWarning, UserError
from patchword.core.seal.checking import check
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run
from patchword.recipes.run_folders.listing import summary_of
from patchword.recipes.run_folders.records import read_record
from patchword.weights import load
from support.material import QUICK, silent, tiny_recipe


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "runs" / "digits"
    train_recipe(tiny_recipe(*QUICK), folder, silent())
    return folder


@pytest.fixture
def done(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "done")


def flip(path: Path, place: int = -3) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


OPENING = {
    "load": load,
    "load a file": lambda folder: load(folder / "model.safetensors"),
    "pipeline": patchword.pipeline,
    "evaluate": lambda folder: patchword.evaluate(folder),
    "evaluate on other data": lambda folder: patchword.evaluate(folder, data="digits"),
    "start from it": lambda folder: train_recipe(
        tiny_recipe(*QUICK).with_settings([f"model={folder}"]), folder.parent / "new", silent()
    ),
}


@pytest.mark.parametrize("opening", OPENING)
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "calibration.json"])
def test_a_changed_file_is_named_by_all_who_open_the_run(done, opening, name):
    flip(done / name)
    before = {path: path.read_bytes() for path in done.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=name) as raised:
        OPENING[opening](done)
    assert f"patchword verify {done}" in str(raised.value)
    assert {path: path.read_bytes() for path in done.rglob("*") if path.is_file()} == before


def test_a_changed_recipe_is_named_before_it_is_read(done):
    recipe = done / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("seed: 0", "seed: 1"))
    for opening in (Run.recipe, patchword.evaluate, patchword.pipeline):
        with pytest.raises(UserError, match=r"recipe\.yaml has changed"):
            opening(Run(done) if opening is Run.recipe else done)


def test_the_weights_of_another_run_are_refused(done, trained):
    """They have the same shapes, so that nothing else would stop them."""
    shutil.copy(trained / "model.safetensors", done)
    before = (done / "evaluation.json").read_bytes()
    with pytest.raises(UserError, match=r"model\.safetensors has changed"):
        evaluate(Run(done))
    assert (done / "evaluation.json").read_bytes() == before


def test_a_changed_result_is_not_shown(done):
    path = done / "evaluation.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "accuracy": 1.0}))
    with pytest.raises(UserError, match=r"evaluation\.json has changed"):
        read_record(done, "evaluation.json")
    assert summary_of(done, "done").state == "broken"


def test_a_tokenizer_that_was_added_is_refused(done):
    (done / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer\.json was added"):
        patchword.pipeline(done)


def test_a_run_without_a_seal_is_opened_with_one_sentence(done):
    (done / "seal.json").unlink()
    flip(done / "model.safetensors")
    with pytest.warns(UnsealedWarning, match="has no seal") as said:
        load(done)
    assert len(said) == 1


@pytest.mark.parametrize("source", ["zoo:vit-exercise", "saved"])
def test_models_that_are_no_runs_are_opened_without_a_word(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    patchword.save(patchword.create("vit-tiny-16", image=32, classes=2, depth=1), "saved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(source)


def test_a_result_that_was_removed_is_computed_again(done):
    for name in ("evaluation.json", "mistakes.json"):
        (done / name).unlink()
    patchword.pipeline(done)
    evaluate(Run(done))
    assert check(done).files["evaluation.json"]
