"""A run never begins again over its own results, whatever was removed from its folder or copied into it."""

import json
import shutil
from pathlib import Path

import pytest

from patchword.api.training import train_recipe
from patchword.core.errors import UserError
from patchword.recipes.run import Run
from patchword.recipes.train import train
from patchword.training.checkpoint.checkpoint import Checkpoints
from patchword.training.checkpoint.origin import Origin, origin_of
from support.material import QUICK, silent, tiny_recipe

RECIPE = tiny_recipe(*QUICK)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A run that was trained to its end and is not yet evaluated, as after a kill."""
    folder = tmp_path_factory.mktemp("once") / "runs" / "digits"
    train(RECIPE, folder, silent())
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A run of another seed."""
    folder = tmp_path_factory.mktemp("other") / "runs" / "digits"
    train(RECIPE.model_copy(update={"seed": 1}), folder, silent())
    return folder


@pytest.fixture
def folder(once, tmp_path):
    return shutil.copytree(once, tmp_path / "runs" / "digits")


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(folder: Path, *, resume: bool, recipe=RECIPE) -> str:
    """Return the error of a training that is refused, with nothing written."""
    before = everything(folder)
    with pytest.raises(UserError) as raised:
        train(recipe, folder, silent(), resume=resume)
    assert everything(folder) == before
    return str(raised.value)


def test_without_its_checkpoints_a_run_does_not_resume(folder):
    shutil.rmtree(folder / "checkpoints")
    text = refused(folder, resume=True)
    assert f"there is no checkpoint in {folder / 'checkpoints'}" in text
    command = f"patchword train {folder / 'recipe.yaml'} --name digits-2 --runs {folder.parent}"
    assert command in text.splitlines()


def test_without_its_recipe_a_run_takes_no_other_one(folder):
    (folder / "recipe.yaml").unlink()
    for resume in (False, True):
        text = refused(folder, resume=resume, recipe=RECIPE.model_copy(update={"seed": 5}))
        assert "its recipe.yaml is missing" in text
        assert f"patchword train RECIPE --name digits-2 --runs {folder.parent}" in text


@pytest.mark.parametrize(
    "names",
    [
        ["model.safetensors"],
        ["model.safetensors", "checkpoints"],
        ["model.safetensors", "checkpoints", "metrics.jsonl"],
        ["model.safetensors", "checkpoints", "seal.json"],
        ["checkpoints", "seal.json"],
        ["checkpoints", "seal.json", "metrics.jsonl", "recipe.yaml"],
        ["recipe.yaml", "seal.json"],
    ],
)
def test_whatever_was_removed_nothing_is_begun_again(folder, names):
    for name in names:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for resume in (False, True):
        refused(folder, resume=resume)


def test_a_changed_file_stops_a_resume(folder):
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"depth": 2', '"depth": 3'))
    assert "config.json has changed" in refused(folder, resume=True)


def test_a_checkpoint_of_another_seed_is_refused(folder, other):
    (theirs,) = Checkpoints(other / "checkpoints").all()
    shutil.copytree(theirs, folder / "checkpoints" / "epoch-00009-batch-0000000")
    with pytest.raises(UserError, match="is not of this run") as raised:
        train(RECIPE, folder, silent(), resume=True)
    assert "with another recipe" in str(raised.value)
    assert "epoch-00009" in str(raised.value)


def test_a_checkpoint_of_another_run_in_the_place_of_its_own_is_refused(folder, other):
    """It has the same name, since it is at the same step."""
    (theirs,) = Checkpoints(other / "checkpoints").all()
    shutil.rmtree(folder / "checkpoints" / theirs.name)
    shutil.copytree(theirs, folder / "checkpoints" / theirs.name)
    with pytest.raises(UserError, match="is not of this run"):
        train(RECIPE, folder, silent(), resume=True)


def test_a_seal_that_is_missing_is_named(folder):
    (folder / "seal.json").unlink()
    text = refused(folder, resume=True)
    assert "seal.json is missing" in text
    assert "--reseal" in text


def test_a_run_that_failed_before_it_saved_anything_is_started_again(folder):
    for name in ("model.safetensors", "metrics.jsonl", "checkpoints", "seal.json"):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert train(RECIPE, folder, silent())


def test_every_checkpoint_has_the_id_of_its_run(once, other):
    (mine,), (theirs,) = (Checkpoints(folder / "checkpoints").all() for folder in (once, other))
    one, two = origin_of(mine), origin_of(theirs)
    assert one["run"] == json.loads((once / "seal.json").read_text())["run"] != two["run"]
    assert one["recipe"] != two["recipe"]
    assert one["data"] == two["data"]


def test_checkpoints_of_older_versions_have_no_id(tmp_path):
    """They are resumed from only in runs that had them when they were sealed."""
    Checkpoints(tmp_path).save("epoch-00001", {}, {"epoch": 1})
    assert origin_of(Checkpoints(tmp_path).all()[0]) == {}
    assert Checkpoints(tmp_path, origin=Origin("a", "b", "c", accepts_older=True)).newest(pytest.fail) is not None
    with pytest.raises(UserError, match="without the id of a run"):
        Checkpoints(tmp_path, origin=Origin("a", "b", "c")).newest(pytest.fail)


def test_a_finished_run_whose_weights_were_removed_is_not_trained_again(once, tmp_path):
    folder = shutil.copytree(once, tmp_path / "run")
    train_recipe(RECIPE, folder, silent(), resume=True)
    (folder / "model.safetensors").unlink()
    assert "has a run already" in refused(folder, resume=False)
    assert "model.safetensors is missing" in refused(folder, resume=True)
    assert Run(folder).metrics()
