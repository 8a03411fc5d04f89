"""Runs are deleted and renamed; running ones, links and folders that are not runs are refused."""

import json
import os

import pytest

from patchword.core import files
from patchword.core.errors import UserError
from patchword.recipes import find_recipe
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run
from patchword.recipes.run_folders.changes import delete_run, rename_run
from patchword.recipes.run_folders.listing import list_run_folders
from patchword.recipes.run_folders.references import replaced_paths, runs_that_use
from patchword.recipes.train import train
from patchword.training.lock.lock import exclusive
from support.material import copied_run, differing, everything_below, sealed, silent


@pytest.fixture
def run(trained, tmp_path):
    return copied_run(trained, tmp_path / "runs" / "run")


def test_a_run_is_deleted_and_what_its_links_lead_to_stays(run, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("mine")
    (run / "link").symlink_to(tmp_path / "precious")
    (run / "checkpoints/linked-file").symlink_to(tmp_path / "precious/file")
    delete_run(run)
    assert list(run.parent.iterdir()) == []
    assert (tmp_path / "precious/file").read_text() == "mine"


def test_a_kill_in_the_middle_leaves_nothing_that_looks_like_a_run(run, trained, monkeypatch):
    def dying(path, **_):
        if path.exists():
            (path / "recipe.yaml").unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files.shutil, "rmtree", dying)
        with pytest.raises(KeyboardInterrupt):
            delete_run(run)
    assert not run.exists()
    assert list_run_folders(run.parent) == []
    assert len(list(run.parent.iterdir())) == 1
    delete_run(copied_run(trained, run.with_name("next")))
    assert list(run.parent.iterdir()) == []  # with what the killed one left


def test_what_is_not_a_run_is_not_deleted(run, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project/recipe.yaml").write_text((run / "recipe.yaml").read_text())
    (tmp_path / "link").symlink_to(run)
    for folder, message in (
        (tmp_path / "project", "is not a run"),
        (tmp_path / "link", "is a link"),
        (run.parent, "holds 1 runs"),
    ):
        before = everything_below(tmp_path)
        with pytest.raises(UserError, match=message):
            delete_run(folder)
        assert everything_below(tmp_path) == before


def test_a_running_run_is_neither_deleted_nor_renamed(run):
    with exclusive(run):
        for change in (lambda: delete_run(run), lambda: rename_run(run, "new")):
            with pytest.raises(UserError, match=rf"in use by another run: got process {os.getpid()}.*\nstop it"):
                change()
    assert Run(run).metrics()


def test_a_renamed_run_is_evaluated_and_resumed(run, trained):
    before = evaluate(Run(run)).summary()
    assert rename_run(run, "new") == []
    new = run.with_name("new")
    assert evaluate(Run(new)).summary() == before
    recipe = Run(new).recipe()
    assert train(recipe, new, silent(), resume=True)
    assert not differing(new / "model.safetensors", trained / "model.safetensors")
    assert not run.exists()


def test_runs_that_start_from_a_renamed_run_get_its_new_path(run, trained):
    teacher = {"model": {"name": str(run.absolute())}}
    user = copied_run(trained, run.with_name("user"), **teacher)
    other = copied_run(trained, run.with_name("other"), model={"name": str(run.with_name("run-2").absolute())})
    broken = copied_run(trained, run.with_name("broken"))
    (broken / "recipe.yaml").write_text("kind: [")
    before = (other / "recipe.yaml").read_text()
    assert runs_that_use(run, run.parent) == [user]
    assert rename_run(run, "new") == [user]
    assert Run(user).recipe().model.name == str(run.with_name("new").absolute())
    assert (other / "recipe.yaml").read_text() == before


@pytest.mark.parametrize("separator", [",", "+"])
def test_a_run_among_several_in_one_field_gets_its_new_path(run, separator):
    plus = run.with_name(f"run{separator}2")
    plus.mkdir()
    both = {
        "about": "a text, " * 1000,
        "teacher": f"{run}{separator}{run.with_name('second')}/model.safetensors",
        "model": str(plus),
    }
    new = replaced_paths(both, run, lambda path: path.replace(str(run), "/new"))
    assert new["teacher"] == f"/new{separator}{run.with_name('second')}/model.safetensors"
    assert new["model"] == str(plus)
    other = replaced_paths(both, run.with_name("second"), lambda path: "")
    assert other["teacher"] == f"{run}{separator}"


def test_a_student_of_several_teachers_gets_the_new_path_of_one(run, trained):
    teachers = [str(copied_run(trained, run.with_name(name)).absolute()) for name in ("first", "second")]
    user = copied_run(trained, run.with_name("user"))
    recipe = find_recipe("fashion-mnist-distilled").with_values({"teacher": teachers})
    (user / "recipe.yaml").write_text(recipe.to_yaml())
    sealed(user)
    assert rename_run(run.with_name("second"), "new") == [user]
    assert Run(user).recipe().teacher.name == f"{teachers[0]},{run.with_name('new').absolute()}"


def test_a_rename_waits_for_runs_that_start_from_it(run, trained):
    user = copied_run(trained, run.with_name("user"), model={"name": str(run.absolute())})
    with exclusive(user), pytest.raises(UserError, match="in use by another run"):
        rename_run(run, "new")
    assert run.is_dir()


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "x" * 201, "tab\t"])
def test_a_bad_new_name_is_refused(run, name):
    with pytest.raises(UserError, match="the new name of a run"):
        rename_run(run, name)


def test_an_existing_name_and_a_run_of_a_study_are_refused(run):
    (run.parent / "other").mkdir()
    with pytest.raises(UserError, match="already exists"):
        rename_run(run, "other")
    (run.parent / "results.json").write_text(json.dumps({"runs": []}))
    with pytest.raises(UserError, match="belongs to a study"):
        rename_run(run, "new")
