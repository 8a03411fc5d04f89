"""The seal of a run is written with its files, and tells what they were."""

import json
import shutil

import pytest

from patchword.api.training import finish_run, train_recipe
from patchword.core.errors import UserError
from patchword.core.files import write_text
from patchword.core.seal.changing import changing
from patchword.core.seal.checking import check
from patchword.core.seal.digest import Entry
from patchword.core.seal.manifest import read_seal
from patchword.recipes import evaluation
from patchword.recipes.run import Run
from patchword.recipes.run_folders.changes import rename_run
from patchword.recipes.train import train
from patchword.training.checkpoint.checkpoint import Checkpoints
from support.material import UNSEALED, silent, tiny_recipe

RECIPE = tiny_recipe("epochs=1")
MODEL = {"model.safetensors", "config.json", "calibration.json", "recipe.yaml", "data.json", "machine.json"}
MODEL |= {"samples.safetensors"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "runs" / "digits"
    train_recipe(RECIPE, folder, silent())
    return folder


@pytest.fixture
def done(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "done")


def test_a_trained_run_is_sealed_and_a_finished_one_with_its_result(trained, finished):
    assert set(check(trained).files) == MODEL
    seal = check(finished)
    assert set(seal.files) == MODEL | {"evaluation.json", "mistakes.json", "finished.json", "metrics.jsonl"}
    assert seal.files["model.safetensors"] == Entry.of(finished / "model.safetensors")
    assert len(seal.run) == 32
    assert seal.has_checkpoint
    assert not seal.resealed
    assert not [path.name for path in finished.iterdir() if path.name.startswith(".seal")]


def test_two_runs_of_one_recipe_have_two_ids(trained, finished):
    assert check(trained).run != check(finished).run


def test_a_run_keeps_its_id_when_it_is_finished_later(trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    before = check(folder)
    train(Run(folder).recipe(), folder, silent(), resume=True)
    finish_run(Run(folder).recipe(), folder, silent())
    after = check(folder)
    assert (after.run, after.recipe, after.data) == (before.run, before.recipe, before.data)


def test_an_evaluation_of_weights_that_were_replaced_meanwhile_is_not_written(done, trained, monkeypatch):
    before, real = (done / "evaluation.json").read_bytes(), evaluation.evaluated

    def slow(*arguments):
        found = real(*arguments)
        for name in ("model.safetensors", "seal.json"):  # of another run, as if this one had gone on
            shutil.copy(trained / name, done / name)
        return found

    monkeypatch.setattr(evaluation, "evaluated", slow)
    with pytest.raises(UserError, match=r"model\.safetensors was replaced meanwhile"):
        evaluation.evaluate(Run(done))
    assert (done / "evaluation.json").read_bytes() == before


@UNSEALED
def test_a_run_without_a_seal_is_evaluated_without_one(done):
    (done / "seal.json").unlink()
    result = json.loads((done / "evaluation.json").read_text())
    evaluation.evaluate(Run(done))
    assert json.loads((done / "evaluation.json").read_text())["accuracy"] == result["accuracy"]
    assert read_seal(done) is None


def test_a_run_of_an_earlier_version_is_sealed_when_it_is_resumed(trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    (folder / "seal.json").unlink()
    checkpoints = Checkpoints(folder / "checkpoints")
    tensors, state = checkpoints.newest(pytest.fail)
    (newest,) = checkpoints.all()
    shutil.rmtree(newest)
    checkpoints.save(newest.name, tensors, state)  # without the id of the run
    train(Run(folder).recipe(), folder, silent(), resume=True)
    assert check(folder).resealed
    assert set(check(folder).files) == MODEL


def test_the_new_path_of_a_renamed_model_is_sealed(finished, tmp_path):
    model, user = (shutil.copytree(finished, tmp_path / "runs" / name) for name in ("model", "user"))
    text = (user / "recipe.yaml").read_text()
    name = f"name: {Run(user).recipe().model.name}"
    assert name in text
    with changing(user) as files:
        write_text(files / "recipe.yaml", text.replace(name, f"name: {model}", 1))
    assert rename_run(model, "renamed") == [user]
    assert "renamed" in (user / "recipe.yaml").read_text()
    assert check(user)
