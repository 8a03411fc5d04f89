"""The list of the lab's models."""

import re

import pytest

from patchword.core.errors import UserError
from patchword.lab.bundle import read_bundle
from patchword.lab.models import list_models
from patchword.weights.local_path import local_path
from patchword.zoo.entries import entries

VIT = local_path("zoo:vit-exercise")


def copied(folder):
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "recipe.yaml"):
        (folder / name).write_bytes((VIT / name).read_bytes())
    return folder


def test_the_zoo_is_always_listed(models):
    assert set(entries()) == {model.name for model in models.values()}
    assert models["vit-exercise"].image == (1, 28, 28)


def test_ids_fit_into_addresses(tmp_path):
    names = ["Ünï code/../x", "a b", "a-b", "run"]
    found = list_models([str(copied(tmp_path / str(number) / name)) for number, name in enumerate(names)])
    given = [model for model in found.values() if not model.source.startswith("zoo:")]
    assert [one.id for one in given] == ["x", "a-b", "a-b-2", "run"]
    assert all(re.fullmatch(r"[a-z0-9-]{1,44}", id) for id in found)
    assert {one.kind for one in given} == {"images"}


def test_a_run_is_found_by_its_name(tmp_path, monkeypatch):
    copied(tmp_path / "runs" / "mine")
    monkeypatch.chdir(tmp_path)
    assert list_models(["mine"])["mine"].labels[1] == "Trouser"


def test_a_folder_of_runs_is_all_its_runs_with_weights(tmp_path, monkeypatch):
    for name in ("first", "second", "begun"):
        copied(tmp_path / "runs" / name)
    (tmp_path / "runs" / "begun" / "model.safetensors").unlink()
    monkeypatch.chdir(tmp_path)
    assert list(list_models(["runs"]))[:2] == ["first", "second"]
    assert "begun" not in list_models(["runs"])


def test_a_model_that_is_given_twice_is_listed_once(models):
    assert list_models(["zoo:vit-exercise", str(VIT)]).keys() == models.keys()


def test_the_names_of_the_zoo_stay_free_for_given_runs(tmp_path):
    found = list_models([str(copied(tmp_path / "vit-exercise"))])
    assert found["vit-exercise"].source == str(tmp_path / "vit-exercise")
    assert found["vit-exercise-2"].source == "zoo:vit-exercise"


def test_a_source_that_does_not_exist_is_an_error(tmp_path, monkeypatch):
    copied(tmp_path / "runs" / "mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="there is no model at mien"):
        list_models(["mien"])
    with pytest.raises(UserError, match="did you mean 'mine'"):
        list_models(["mien"])


def test_a_page_that_is_not_built_is_an_error_with_the_command(tmp_path):
    with pytest.raises(UserError, match="make web"):
        read_bundle(tmp_path)
