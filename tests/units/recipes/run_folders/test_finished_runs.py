"""A finished run keeps only what it needs; a kill at any moment leaves a run that resumes or a finished one."""

import json
import shutil
from pathlib import Path

import pytest

import patchword
from patchword.api import training as api_training
from patchword.api.training import train_recipe
from patchword.core import files
from patchword.core.errors import UserError
from patchword.core.files import folder_bytes
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run
from patchword.recipes.run_folders.changes import delete_run, rename_run
from patchword.recipes.run_folders.finished import clean, finish_folder, is_finished
from patchword.recipes.run_folders.listing import summary_of
from patchword.recipes.train import begin, build_task, train
from patchword.training.checkpoint.checkpoint import Checkpoints
from patchword.training.checkpoint.removal import removable, remove_checkpoints
from patchword.training.lock.lock import exclusive
from support.material import copied_run, differing, silent, tiny_recipe

RECIPE = tiny_recipe("epochs=1")


class Died(BaseException):
    """Simulates a kill: no code of the library catches it."""


@pytest.fixture(autouse=True)
def _unpainted(unpainted):
    pass


@pytest.fixture
def done(trained, tmp_path) -> Path:
    return copied_run(trained, tmp_path / "done")


def kept(folder: Path) -> list[Path]:
    return Checkpoints(folder / "checkpoints").all()


def test_a_finished_run_has_no_checkpoints_and_is_not_trained_again(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    train_recipe(RECIPE, folder, silent())
    assert not (folder / "checkpoints").exists()
    assert json.loads((folder / "finished.json").read_text())["epochs"] == 1
    weights = (folder / "model.safetensors").read_bytes()
    monkeypatch.setattr(api_training, "finish", pytest.fail)
    train_recipe(RECIPE, folder, out := silent(), resume=True)
    assert f"{folder} is finished: 1 epoch, test accuracy" in " ".join(out.file.getvalue().split())
    assert (folder / "model.safetensors").read_bytes() == weights


def test_a_finished_run_is_evaluated_loaded_and_fine_tuned(done):
    before = evaluate(Run(done)).summary()
    finish_folder(done, keep_checkpoints=False)
    assert evaluate(Run(done)).summary() == before
    assert patchword.load(done).card.model == "vit-exercise"
    assert train(RECIPE.with_values({"model": str(done)}), done.with_name("tuned"), silent())


def test_the_recipe_can_keep_the_checkpoints(done):
    assert finish_folder(done, keep_checkpoints=True) == 0
    assert is_finished(done)
    assert kept(done)


def test_more_epochs_are_refused_with_the_command_that_begins_with_the_weights(tmp_path):
    folder = tmp_path / "run"
    train_recipe(RECIPE, folder, silent())
    with pytest.raises(UserError, match=r"spans all epochs(.|\n)*model=\S+run epochs=3 --name run-longer"):
        train_recipe(RECIPE.with_values({"epochs": 3}), folder, silent(), resume=True)


def test_a_kill_while_the_test_set_is_read_leaves_a_run_that_resumes(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(api_training, "finish", lambda *_: (_ for _ in ()).throw(Died))
        with pytest.raises(Died):
            train_recipe(RECIPE, folder, silent())
    assert kept(folder)
    assert not is_finished(folder)
    train_recipe(RECIPE, folder, silent(), resume=True)
    assert is_finished(folder)


def test_a_run_is_in_use_until_it_is_evaluated(tmp_path, monkeypatch):
    folder, evaluating = tmp_path / "run", api_training.finish

    def tried(*settings: object) -> object:
        for change in (lambda: delete_run(folder), lambda: rename_run(folder, "other"), lambda: clean(folder)):
            with pytest.raises(UserError, match="is in use by another run"):
                change()
        assert summary_of(folder, "run").state == "running"
        return evaluating(*settings)

    monkeypatch.setattr(api_training, "finish", tried)
    train_recipe(RECIPE, folder, silent())
    assert is_finished(folder)


def test_a_finished_run_whose_result_was_removed_is_evaluated_again(tmp_path):
    folder = tmp_path / "run"
    train_recipe(RECIPE, folder, silent())
    evaluation, weights = folder / "evaluation.json", (folder / "model.safetensors").read_bytes()
    before = evaluation.read_text()
    evaluation.unlink()
    train_recipe(RECIPE, folder, silent(), resume=True)
    assert evaluation.read_text() == before
    assert (folder / "model.safetensors").read_bytes() == weights


def test_better_weights_remove_the_evaluation_of_earlier_ones(tmp_path, monkeypatch):
    folder = tmp_path / "run"

    def begun(*arguments):
        begin(*arguments)
        (folder / "evaluation.json").write_text("{}")  # e.g. of `patchword evaluate` while the run was stopped

    monkeypatch.setattr("patchword.recipes.train.begin", begun)
    assert train(RECIPE, folder, silent())
    assert not (folder / "evaluation.json").exists()
    with pytest.raises(UserError, match="is not finished"):
        clean(folder)


@pytest.mark.parametrize("call", [1, 2])
def test_a_kill_while_checkpoints_are_removed_leaves_a_finished_run(done, monkeypatch, call):
    checkpoint = done / "checkpoints" / "epoch-00000-batch-0000005"
    shutil.copytree(kept(done)[-1], checkpoint)
    weights, removing, calls = (done / "model.safetensors").read_bytes(), files.shutil.rmtree, []

    def dying(path: Path, **settings: object) -> None:
        if path.exists() and path.parent.name == "checkpoints":
            calls.append(path)
            if len(calls) == call:
                (path / "tensors.safetensors").unlink()
                raise Died
        removing(path, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(files.shutil, "rmtree", dying)
        with pytest.raises(Died):
            finish_folder(done, keep_checkpoints=False)
    assert is_finished(done)
    assert summary_of(done, "done").state == "finished"
    assert all((path / "manifest.json").is_file() for path in kept(done))  # those that remain are whole
    assert (done / "model.safetensors").read_bytes() == weights
    train_recipe(Run(done).recipe(), done, out := silent(), resume=True)
    assert "is finished" in out.file.getvalue()
    clean(done)
    assert not (done / "checkpoints").exists()


def test_only_checkpoints_are_removed(done, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(kept(done)[-1], elsewhere / "epoch-00001")
    places = done / "checkpoints"
    (places / "notes.txt").write_text("mine")
    (places / "epoch-00009").symlink_to(elsewhere / "epoch-00001")
    (places / "rewind" / "000000008").mkdir(parents=True)
    (places / ".epoch-00001-batch-0000000.77.tmp").mkdir()
    before = folder_bytes(done)
    freed = remove_checkpoints(places)
    assert before - folder_bytes(done) == freed > 0
    assert {path.name for path in places.iterdir()} == {"notes.txt", "epoch-00009"}
    assert list((elsewhere / "epoch-00001").iterdir())


def test_a_link_to_checkpoints_on_another_disk_is_not_followed(done, tmp_path):
    shutil.move(done / "checkpoints", tmp_path / "scratch")
    (done / "checkpoints").symlink_to(tmp_path / "scratch")
    assert removable(done / "checkpoints") == []
    assert finish_folder(done, keep_checkpoints=False) == 0
    assert list((tmp_path / "scratch").iterdir())


def test_a_run_of_an_earlier_version_is_cleaned_and_an_unfinished_one_is_not(done, trained, tmp_path):
    assert clean(done) > 0
    assert is_finished(done)
    for name, folder in {
        "not evaluated": copied_run(trained, tmp_path / "unevaluated", evaluated=False),
        "stopped early and evaluated": copied_run(trained, tmp_path / "early", epochs=5),
    }.items():
        with pytest.raises(UserError, match="is not finished: its checkpoints are needed to resume it"):
            clean(folder)
        assert kept(folder), name


def test_a_run_that_ran_out_of_patience_is_finished(trained, tmp_path):
    folder = copied_run(trained, tmp_path / "patient", epochs=9, patience=2)
    line = json.loads((folder / "metrics.jsonl").read_text())
    lines = [{**line, "epoch": epoch, "validation_accuracy": score} for epoch, score in ((1, 0.5), (2, 0.4), (3, 0.4))]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines[:2]))
    assert summary_of(folder, "").state == "stopped"
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert summary_of(folder, "").state == "finished"


def test_a_run_in_use_is_not_cleaned(done):
    with exclusive(done), pytest.raises(UserError, match="is in use by another run"):
        clean(done)
    assert kept(done)


@pytest.mark.parametrize("resume", [True, False])
def test_another_process_that_finishes_meanwhile_is_no_reason_to_start_again(trained, tmp_path, monkeypatch, resume):
    folder, recipe = tmp_path / "run", Run(trained).recipe()
    if resume:
        copied_run(trained, folder, evaluated=False)

    def finished_meanwhile(*settings: object) -> object:
        if not resume:
            copied_run(trained, folder)
        finish_folder(folder, keep_checkpoints=False)
        return build_task(*settings)

    monkeypatch.setattr("patchword.recipes.train.build_task", finished_meanwhile)
    with pytest.raises(UserError, match="was finished by another process" if resume else "has a run already"):
        train(recipe, folder, silent(), resume=resume)
    assert (folder / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert (folder / "metrics.jsonl").read_bytes() == (trained / "metrics.jsonl").read_bytes()
    assert is_finished(folder)


def test_evaluated_weights_without_checkpoints_are_not_overwritten(done):
    shutil.rmtree(done / "checkpoints")  # by hand, or it was copied without them
    weights, metrics = (done / "model.safetensors").read_bytes(), (done / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match=rf"got there is no checkpoint in .*\n.*patchword runs clean {done}"):
        train(Run(done).recipe(), done, silent(), resume=True)
    assert (done / "model.safetensors").read_bytes() == weights
    assert (done / "metrics.jsonl").read_bytes() == metrics
    clean(done)
    assert train(Run(done).recipe(), done, silent(), resume=True)
    assert (done / "model.safetensors").read_bytes() == weights


def test_weights_equal_those_of_a_run_that_keeps_its_checkpoints(tmp_path):
    for name, keep in (("kept", True), ("cleaned", False)):
        train_recipe(RECIPE.with_values({"keep_checkpoints": keep}), tmp_path / name, silent())
    assert not differing(tmp_path / "kept/model.safetensors", tmp_path / "cleaned/model.safetensors")
    assert kept(tmp_path / "kept")
