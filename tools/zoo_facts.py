"""What is written by hand about a model of the zoo, and whether its command fits the run."""

import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from patchword.core.errors import UserError
from patchword.recipes import RECIPES, find_recipe
from patchword.recipes.run import Run
from patchword.weights.local_path import is_model_name

PACKAGE = Path(__file__).resolve().parents[1] / "packages" / "zoo"
FACTS = ("models.yaml", "cards.yaml")  # lists of models; of the same name, fields of the later file win
NEEDED = ("task", "data", "data_licence", "licence", "limits", "uses", "dtype", "command", "sample")
_PATH = re.compile(r"(?:[^\s,+=]*/)([^/\s,+]+)")
_FREE = ("about", "expect", "device", "cache")  # fields of a recipe that do not change the weights


def facts_of(name: str) -> dict[str, Any]:
    """Return what was written by hand about a model; a missing field is an error.

    models.yaml says how each is trained; cards.yaml adds what its card needs besides.
    """
    facts: dict[str, Any] = {}
    for file in FACTS:
        listed = yaml.safe_load((PACKAGE / file).read_text(encoding="utf-8")) if (PACKAGE / file).is_file() else []
        facts |= next((one for one in listed if one["name"] == name), {})
    if "recipe" in facts:
        words = [word.replace("{data}/", "") for word in facts["settings"]]
        facts.setdefault("command", shlex.join(["patchword", "train", facts["recipe"], *words]))
    if missing := [field for field in NEEDED if not facts.get(field)]:
        raise UserError(
            f"the facts about {name} are not complete", expected=", ".join(missing), got=PACKAGE / FACTS[-1]
        )
    return facts


def check_command(command: str, run: Run) -> None:
    """Raise an error if the command of the card would not train this run. The command of a study is not checked."""
    _, _, name, *settings = shlex.split(command)
    if name not in RECIPES:
        return
    expected = find_recipe(name).with_settings(word for word in settings if not word.startswith("-"))
    wanted, got = (without_folders(recipe.model_dump(mode="json")) for recipe in (expected, run.recipe()))
    wrong = {field: got.get(field) for field in wanted if field not in _FREE and wanted[field] != got.get(field)}
    if wrong:
        raise UserError(f"this is not the command of {run.folder}", expected=wrong, got=command)


def without_folders(value: Any) -> Any:
    """Replace every path by its last part, so that no folder of the machine is published."""
    if isinstance(value, dict):
        return {name: inner if name == "about" else without_folders(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_folders(inner) for inner in value]
    return _PATH.sub(r"\1", value) if isinstance(value, str) and not is_model_name(value) else value
