"""What the shell completes: names of recipes, models, runs and data sets, and fields with their choices.

Every function reads completion.json, which `make stubs` writes, instead of the recipes and models: they import torch,
and a shell does not wait for seconds.
"""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import typer


@cache
def names() -> dict[str, Any]:
    """Return the content of completion.json."""
    content: dict[str, Any] = json.loads(Path(__file__).with_name("completion.json").read_text(encoding="utf-8"))
    return content


def recipe_names(incomplete: str) -> list[str]:
    return _starting(names()["recipes"], incomplete)


def recipe_or_study_names(incomplete: str) -> list[str]:
    return _starting([*names()["recipes"], *names()["studies"]], incomplete)


def trainable(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return recipes, studies and the runs under --runs."""
    return recipe_or_study_names(incomplete) + run_names(ctx, incomplete)


def run_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the runs under --runs, or their paths if a path was begun."""
    given = ctx.params.get("runs")  # of `landscape`, a list of runs
    below = Path(given) if isinstance(given, str | Path) else Path("runs")
    found = sorted(file.parent for pattern in ("*", "*/*") for file in below.glob(f"{pattern}/recipe.yaml"))
    return _starting([str(run.relative_to(below)) for run in found] + [str(run) for run in found], incomplete)


def model_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of models and runs."""
    return _starting(names()["models"], incomplete) + run_names(ctx, incomplete)


def benchmark_names(incomplete: str) -> list[str]:
    return _starting(dict.fromkeys([*names()["models"].values(), *names()["models"]]), incomplete)


def data_names(incomplete: str) -> list[str]:
    return _starting(names()["data"], incomplete)


def model_settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return FIELD=VALUE of the model that is given."""
    return _settings(_model_fields(_given(ctx, "model")), [], incomplete)


def recipe_settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return FIELD=VALUE of the recipe that is given, those of its model included."""
    content, typed = names(), [str(word) for word in ctx.params.get("fields") or ()]
    kind, model = content["recipes"].get(_given(ctx, "recipe"), (None, None))
    if kind is None:
        return []
    chosen = next((word.removeprefix("model=") for word in typed if word.startswith("model=")), model)
    fields = {f"model.{name}": choices for name, choices in _model_fields(chosen).items()}
    return _settings({**content["kinds"][kind], **fields, **_named()}, typed, incomplete)


def _given(ctx: typer.Context, name: str) -> str:
    """Return the first argument of a verb; behind an option without its value, the words are not parsed yet."""
    return str(ctx.params.get(name) or next(iter(ctx.args), ""))


def _named() -> dict[str, list[str]]:
    """Return the fields whose values are names, where the values are long lists."""
    return {"model": list(names()["models"]), "data": names()["data"]}


def _model_fields(model: object) -> dict[str, list[str]]:
    content = names()
    fields: dict[str, list[str]] = content["families"].get(content["models"].get(str(model)), {})
    return fields


def _settings(fields: dict[str, list[str]], typed: list[str], incomplete: str) -> list[str]:
    """Return the settings that the word may become; where bash has split it at "=", the bare values.

    A single field is returned with its choices, or twice, so that bash puts no space behind "=".
    """
    if not incomplete and typed[-1:] and typed[-1] in fields:
        return fields[typed[-1]]
    if typed[-1:] == ["="] and typed[-2:-1]:
        return _starting(fields.get(typed[-2], []), incomplete)
    field, equals, value = incomplete.partition("=")
    if equals:
        return [f"{field}={choice}" for choice in _starting(fields.get(field, []), value)]
    found = [f"{name}=" for name in _starting(fields, incomplete)]
    if len(found) != 1:
        return found
    choices = fields[found[0][:-1]] or ["VALUE"]
    return [*found, *(f"{found[0]}{choice}" for choice in choices)]


def _starting(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
