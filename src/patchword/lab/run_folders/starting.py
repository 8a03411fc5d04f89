"""Starts and resumes trainings from the page: which fields it may set, and the checks before anything runs.

A recipe is given by its name alone. Numbers, switches and choices can be set; texts cannot, since a text may be a path
or name a model of the hub. Two texts have a choice made here: data, of the named data sets on this machine, and the
model, of the registry. So recipes that need the user's own files are started in a shell.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import torch
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from patchword.core.errors import UserError, nearest
from patchword.core.type_names import in_words
from patchword.data.image.named_datasets import DATASETS, find_dataset
from patchword.lab.errors import UnknownIdError
from patchword.lab.field_limits import read_fields
from patchword.models import REGISTRY
from patchword.models.field_meanings import FIELD_MEANINGS
from patchword.recipes import RECIPES
from patchword.recipes.kinds import kind_of
from patchword.recipes.recipe_kind import TASKS
from patchword.recipes.schema.commented import grouped_fields
from patchword.recipes.schema.recipe import Recipe

MOST_PROCESSES = 8
MOST_EPOCHS = 100_000
LARGEST = 2.0**64  # of any number; products of sizes beyond it are no floats
FIRST = ("epochs", "learning_rate", "batch_size", "seed", "model", "data", "sam")  # the most used fields
_KEPT = ("kind", "about", "expect", "teacher", "loggers", "keep_checkpoints")  # not set from the page
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")

Value = bool | int | float | str


@lru_cache(maxsize=1)
def recipes_json() -> dict[str, Any]:
    """Return all recipes by the order of their tasks, each with its fields."""
    rows = [_recipe_json(name, make()) for name, make in RECIPES.items()]
    return {"recipes": sorted(rows, key=lambda row: TASKS.index(row["task"])), "processes": MOST_PROCESSES}


def train_words(name: str, values: Mapping[str, Value], run: str, processes: int, runs: Path) -> list[str]:
    """Return the arguments of `patchword train`, all of them checked by the schema of the recipe."""
    recipe = _recipe(name)
    fields = {field["name"]: field for field in fields_of(recipe)}
    settings = [f"{field}={_text(field, value, fields)}" for field, value in values.items()]
    chosen = recipe.with_settings(settings)
    _check_model(chosen)
    if needed := kind_of(chosen).required_settings(chosen):
        raise UserError(
            f"the recipe {name} needs {needed}", hint=f"start it in a shell: patchword train {name} {needed}"
        )
    if chosen.epochs > MOST_EPOCHS:
        raise UserError("recipe field 'epochs'", expected=f"at most {MOST_EPOCHS:,}", got=chosen.epochs)
    if not _NAME.fullmatch(run):
        expected = "1 to 60 letters, digits, dots, hyphens and underscores, the first a letter or a digit"
        raise UserError("the name of the run", expected=expected, got=repr(run[:80]))
    if (runs / run).exists() or (runs / run).is_symlink():
        raise UserError(f"there is a run {run} already", expected="another name")
    return [name, *settings, "--name", run, "--runs", str(runs), *_processes(processes)]


def resume_words(folder: Path, processes: int) -> list[str]:
    """Return the arguments that resume a stopped run with its own recipe."""
    if not (folder / "recipe.yaml").is_file():
        raise UserError(f"{folder.name} has no recipe", expected="a run that was started")
    place = ["--name", folder.name, "--runs", str(folder.parent), "--resume"]
    return [str(folder / "recipe.yaml"), *place, *_processes(processes)]


def fields_of(recipe: Recipe) -> list[dict[str, Any]]:
    """Return the fields that the page may set: name, group, description, default, and type or choices."""
    values, found = recipe.model_dump(mode="json"), []
    for group, names in grouped_fields(recipe).items():
        for name in names:
            if name not in _KEPT:
                found += _field_json(recipe, group, name, values[name])
    return sorted(found, key=lambda field: FIRST.index(field["name"]) if field["name"] in FIRST else len(FIRST))


def _recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise UnknownIdError(f"no recipe is called {name[:80]!r}", hint=nearest(name[:80], RECIPES))
    return RECIPES[name]()


def _recipe_json(name: str, recipe: Recipe) -> dict[str, Any]:
    kind = kind_of(recipe)
    needed = kind.required_settings(recipe)
    data = getattr(recipe, "data", "")
    if not needed and data in DATASETS and find_dataset(data) is None:
        needed = f"the data set {data} on this machine: patchword data get {data}"
    words = {"name": name, "kind": recipe.kind, "task": kind.task, "about": recipe.about, "needs": needed}
    return {**words, "time": recipe.expect.time, "first": list(FIRST), "fields": [] if needed else fields_of(recipe)}


def _field_json(recipe: Recipe, group: str, name: str, value: Any) -> list[dict[str, Any]]:
    field = type(recipe).model_fields[name]
    if name == "model":
        return _model_fields(recipe, group)
    inner = field.annotation
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        parts = [(f"{name}.{sub}", part, value[sub]) for sub, part in inner.model_fields.items()]
        return [row for sub, part, now in parts for row in _row(sub, group, part, now)]
    choices = _choices(name, value)
    if choices:
        about = "a named data set that is on this machine" if name == "data" else field.description or ""
        words = {"name": name, "group": group, "about": about, "default": value}
        return [{**words, "type": "choice", "choices": choices, "limits": ""}]
    return _row(name, group, field, value)


def _row(name: str, group: str, field: FieldInfo, value: Any) -> list[dict[str, Any]]:
    """Return a field whose type is a number, a switch or a choice; nothing for a text."""
    kind = field.annotation
    row = {"name": name, "group": group, "about": field.description or "", "default": value, "limits": ""}
    if get_origin(kind) is Literal:
        return [{**row, "type": "choice", "choices": list(get_args(kind))}]
    if kind is bool:
        return [{**row, "type": "switch"}]
    if kind in (int, float) and isinstance(value, (int, float)):
        return [{**row, "type": "integer" if kind is int else "number", "limits": in_words(kind, field.metadata)}]
    return []


def _choices(name: str, value: Any) -> list[Value]:
    if name == "device":
        return ["auto", "cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    if name == "activation_checkpointing":
        return [False, True]
    if name == "data" and (value in DATASETS or value == "digits"):
        return ["digits", *(known for known in DATASETS if find_dataset(known) is not None)]
    return []


def _model_fields(recipe: Recipe, group: str) -> list[dict[str, Any]]:
    """Return the model, if it is one of the registry, and the numbers among its fields."""
    name = recipe.model.name
    if name not in REGISTRY.names():
        return []
    reads = REGISTRY.reads(name)
    names = [one for one in REGISTRY.names() if REGISTRY.reads(one) == reads]
    row = {"name": "model", "group": group, "about": "the model, by its name in the registry", "default": name}
    found: list[dict[str, Any]] = [{**row, "type": "choice", "choices": names, "limits": ""}]
    config = {**vars(REGISTRY.find(name)[1].config), **recipe.model.overrides()}
    for field, value in config.items():
        if type(value) in (int, float) and field not in ("classes", "channels"):
            kind = "integer" if type(value) is int else "number"
            about = f"{FIELD_MEANINGS.get(field, field)} (of {name})"
            words = {"name": f"model.{field}", "group": group, "about": about, "default": value, "limits": ""}
            found.append({**words, "type": kind})
    return found


def _text(name: str, value: Value, fields: Mapping[str, dict[str, Any]]) -> str:
    """Return a value as it is typed, if the field may be set and the value has its type."""
    if name not in fields:
        hint = "texts, such as paths, are set in a shell" if name.isidentifier() else nearest(name[:80], fields)
        raise UserError(f"the page cannot set the field {name[:80]!r}", hint=hint)
    field = fields[name]
    kind = field["type"]
    if kind == "choice" and value not in field["choices"]:
        raise UserError(
            f"recipe field {name!r}", expected=" or ".join(map(str, field["choices"][:20])), got=str(value)[:80]
        )
    if kind == "switch" and not isinstance(value, bool):
        raise UserError(f"recipe field {name!r}", expected="true or false", got=str(value)[:80])
    if kind in ("integer", "number") and not _is_number(value):
        raise UserError(f"recipe field {name!r}", expected=field["limits"] or "a number", got=str(value)[:80])
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST


def _check_model(recipe: Recipe) -> None:
    """Refuse fields that the model does not have, or that are too large for this machine by far."""
    name = recipe.model.name
    if name in REGISTRY.names():
        overrides = recipe.model.overrides()
        config = vars(REGISTRY.find(name)[1].config)
        texts = {field: str(value) for field, value in overrides.items() if isinstance(value, (int, float))}
        read_fields(texts.items(), config)
        REGISTRY.configure(name, overrides)


def _processes(count: int) -> list[str]:
    if not 1 <= count <= MOST_PROCESSES:
        raise UserError("the number of processes", expected=f"1 to {MOST_PROCESSES}", got=count)
    return ["--processes", str(count)] if count > 1 else []
