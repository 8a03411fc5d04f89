"""What the page may start: recipes by name, with numbers, switches and choices that their schema accepts."""

import json
import shlex

import pytest

from patchword.core.errors import UserError
from patchword.lab.app import LabSettings, build_app
from patchword.lab.bundle import read_bundle
from patchword.lab.errors import UnknownIdError
from patchword.lab.jobs import Jobs
from patchword.lab.run_folders.starting import recipes_json, resume_words, train_words
from patchword.models import REGISTRY
from patchword.recipes import RECIPES, find_recipe
from patchword.serving.access import Access
from patchword.training.lock.lock import exclusive
from support.lab.asgi import Caller
from support.lab.runs import write_run


def words(tmp_path, recipe="digits-vit", name="new", processes=1, **fields):
    return train_words(recipe, fields, name, processes, tmp_path)


def test_all_recipes_are_listed_with_checked_fields():
    rows = {row["name"]: row for row in recipes_json()["recipes"]}
    assert set(rows) == set(RECIPES)
    assert rows["finetune-images"]["needs"] == "model=WEIGHTS data=FOLDER"
    assert rows["finetune-images"]["fields"] == []
    digits = {field["name"]: field for field in rows["digits-vit"]["fields"]}
    assert [field["name"] for field in rows["digits-vit"]["fields"]][:3] == ["epochs", "learning_rate", "batch_size"]
    assert (digits["epochs"]["default"], digits["epochs"]["type"]) == (40, "integer")
    assert digits["epochs"]["limits"] == "a whole number, greater than 0"
    assert all(field["about"] for field in digits.values())
    assert "digits" in digits["data"]["choices"]
    assert digits["schedule"]["choices"] == ["cosine", "linear", "inverse-root", "step"]
    assert digits["model.depth"]["default"] == 4
    json.dumps(rows, allow_nan=False)


def test_no_field_takes_a_text():
    """A text may be a path, or name a model of the hub."""
    for row in recipes_json()["recipes"]:
        for field in row["fields"]:
            assert field["type"] in ("choice", "switch", "integer", "number")
            assert field["type"] != "choice" or len(field["choices"]) > 0
            assert not str(field["default"]).startswith(("/", "hf:", "."))


def test_every_default_is_accepted(tmp_path):
    for row in recipes_json()["recipes"]:
        if row["fields"]:
            values = {field["name"]: field["default"] for field in row["fields"]}
            given = train_words(row["name"], values, "new", 1, tmp_path)
            settings = given[1 : given.index("--name")]
            base = find_recipe(row["name"])
            chosen = base.with_settings(settings)  # its model has all fields of its config, also the unchanged ones
            assert chosen.model_copy(update={"model": base.model, "expect": base.expect}) == base
            name, overrides = base.model.name, base.model.overrides()
            assert REGISTRY.configure(name, chosen.model.overrides()) == REGISTRY.configure(name, overrides)


def test_the_words_are_those_of_the_command_line(tmp_path):
    found = words(tmp_path, epochs=3, learning_rate=0.01, compile=True, schedule="linear", processes=2)
    text = f"digits-vit epochs=3 learning_rate=0.01 compile=true schedule=linear --name new --runs {tmp_path}"
    assert shlex.join(found) == f"{text} --processes 2"
    assert "model.depth=2" in train_words("digits-vit", {"model.depth": 2}, "new", 1, tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"data": "/etc"},
        {"data": "../photos"},
        {"data": "fashion"},
        {"model": "/etc/passwd"},
        {"model": "hf:evil/model"},
        {"model.name": "/etc/passwd"},
        {"model.from_scratch": True},
        {"model.nonsense": 3},
        {"model.depth": "4; touch x"},
        {"model.width": 10**9},
        {"model.width": 4.5},
        {"teacher": "/etc"},
        {"teacher.name": "/etc"},
        {"about": "x"},
        {"kind": "text"},
        {"loggers": "wandb"},
        {"keep_checkpoints": True},
        {"epochs": 0},
        {"epochs": 2.5},
        {"epochs": 10**6},
        {"epochs": "3"},
        {"epochs": True},
        {"epochs": float("nan")},
        {"learning_rate": float("inf")},
        {"learning_rate": -1},
        {"seed": 2**64},
        {"learning_rate": 10**400},
        {"model.width": 10**400},
        {"model.width": float("nan")},
        {"compile": 1},
        {"compile": "true"},
        {"schedule": "none"},
        {"schedule": "cosine --resume"},
        {"device": "cpu epochs=3"},
        {"device": "meta"},
        {"epochs=3 data": 3},
        {"--resume": 1},
        {"": 1},
    ],
)
def test_other_fields_are_refused(tmp_path, fields):
    with pytest.raises(UserError):
        train_words("digits-vit", fields, "new", 1, tmp_path)


@pytest.mark.parametrize("recipe", ["", "nothing", "../x", "/etc/passwd", "digits-vit ", "runs/demo", "seeds", "sam"])
def test_a_recipe_is_a_known_name(tmp_path, recipe):
    with pytest.raises(UnknownIdError):
        words(tmp_path, recipe)


def test_a_recipe_of_own_data_is_started_in_a_shell(tmp_path):
    with pytest.raises(UserError, match=r"needs data=FOLDER\nstart it in a shell"):
        words(tmp_path, "image-folder-vit")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "-x", "--resume", ".hidden", "a b", "x" * 61, "é", "a\n", "taken"]
)
def test_the_name_of_a_run_is_no_path_and_is_free(tmp_path, name):
    (tmp_path / "taken").mkdir()
    with pytest.raises(UserError):
        words(tmp_path, name=name)


@pytest.mark.parametrize("processes", [0, -1, 9, 1000])
def test_processes_are_bounded(tmp_path, processes):
    with pytest.raises(UserError, match="the number of processes"):
        words(tmp_path, processes=processes)


@pytest.fixture
def started(monkeypatch):
    """The arguments of the jobs that a lab starts, none of which runs."""
    found = []
    monkeypatch.setattr(Jobs, "_launch", lambda self, folder, words: found.append(words) or Finished())
    return found


class Finished:
    pid = 2**22 + 1  # no process

    def poll(self) -> int:
        return 0


@pytest.fixture
def call(page, tmp_path):
    access = Access(8765)
    app = build_app(LabSettings(access, read_bundle(page), {}, runs=tmp_path / "runs"))
    return Caller(app, {"host": "127.0.0.1:8765", "cookie": f"{access.cookie}={access.token}"})


def post(call, **fields):
    return call("/api/jobs", "POST", {"content-type": "application/json"}, [json.dumps(fields).encode()])


def test_a_job_is_started_and_listed(call, started, tmp_path):
    found = post(call, verb="train", recipe="digits-vit", fields={"epochs": 2, "sam": 0.1}, name="mine")
    assert found.status == 200
    assert started == [
        ["train", "digits-vit", "epochs=2", "sam=0.1", "--name", "mine", "--runs", f"{tmp_path / 'runs'}"]
    ]
    (job,) = call("/api/jobs").json()["jobs"]
    assert (job["id"], job["about"]) == (found.json()["id"], {"run": "mine", "recipe": "digits-vit"})
    assert call(f"/api/jobs/{job['id']}").json()["output"] == ""
    assert call(f"/api/jobs/{job['id']}", "DELETE").json()["state"] == "failed"
    assert call("/api/jobs/nothing", "DELETE").status == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"verb": "delete"},
        {"verb": "train"},
        {"verb": "train", "recipe": "digits-vit"},
        {"verb": "train", "recipe": "digits-vit", "name": "x", "runs": "/tmp"},
        {"verb": "train", "recipe": "digits-vit", "name": "x", "fields": {"epochs": [3]}},
        {"verb": "train", "recipe": "digits-vit", "name": "x", "fields": {"model": {"name": "/etc"}}},
        {"verb": "train", "recipe": "digits-vit", "name": "x", "fields": {f"f{number}": 1 for number in range(300)}},
        {"verb": "train", "recipe": "digits-vit", "name": "x", "processes": "2"},
        {"verb": "resume"},
        {"verb": "resume", "run": "../x"},
        {"verb": "resume", "run": "done"},
        {"verb": "resume", "run": "busy"},
        {"verb": "resume", "run": "half", "processes": 100},
    ],
)
def test_other_requests_start_nothing(call, started, tmp_path, body):
    write_run(tmp_path / "runs" / "done")
    write_run(tmp_path / "runs" / "half", done=1, finished=False)
    busy = write_run(tmp_path / "runs" / "busy", done=1, finished=False)
    with exclusive(busy):
        found = post(call, **body)
    assert found.status in (404, 422)
    assert found.json()["error"]["what"]
    assert started == []


def test_a_stopped_run_is_resumed_with_its_own_recipe(call, started, tmp_path):
    folder = write_run(tmp_path / "runs" / "half", done=1, finished=False)
    assert post(call, verb="resume", run="half").status == 200
    place = ["--name", "half", "--runs", str(tmp_path / "runs"), "--resume"]
    assert started == [["train", str(folder / "recipe.yaml"), *place]]
    assert resume_words(folder, 2)[-2:] == ["--processes", "2"]
    row = call("/api/runs").json()["runs"][0]
    assert (row["id"], row["state"]) == ("half", "failed")  # its job has ended without a code
