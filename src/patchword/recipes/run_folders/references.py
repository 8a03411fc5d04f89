"""Which runs were started from another run: their recipes have its path, e.g. as the model or the teacher."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from yaml import YAMLError

from patchword.core.formats.safe_yaml import parse_yaml
from patchword.recipes.run_folders.listing import run_folders

# of several teachers, files or sources of word vectors in one field; a name may contain these characters, too
_SEPARATOR = re.compile(r"([,+])(?=/)")


def runs_that_use(folder: Path, runs: Path) -> list[Path]:
    """Return the runs below `runs` whose recipes have the path of this folder, or of a file in it."""
    others = [other for other in run_folders(runs) if other.absolute() != folder.absolute()]
    return [other for other in others if _mentions(_values(other / "recipe.yaml"), folder)]


def _mentions(values: Any, folder: Path) -> bool:
    found: list[str] = []

    def note(path: str) -> str:
        found.append(path)
        return path

    replaced_paths(values, folder, note)
    return bool(found)


def replaced_paths(values: Any, folder: Path, replace: Callable[[str], str]) -> Any:
    """Return the values of a recipe with each path of the folder, or of a file in it, replaced."""
    if isinstance(values, dict):
        return {name: replaced_paths(value, folder, replace) for name, value in values.items()}
    if isinstance(values, list):
        return [replaced_paths(value, folder, replace) for value in values]
    if not isinstance(values, str):
        return values
    single = os.path.exists(values)  # noqa: PTH110  # Path.exists raises an error for a long text
    parts = [values] if single else _SEPARATOR.split(values)
    return "".join(replace(part) if _is_inside(part, folder) else part for part in parts)


def _is_inside(text: str, folder: Path) -> bool:
    """Return whether a text is the path of the folder or below it; recipes of runs have absolute paths."""
    return Path(text).is_relative_to(folder.absolute())


def _values(recipe: Path) -> Any:
    try:
        return parse_yaml(recipe.read_text(encoding="utf-8"))
    except (OSError, ValueError, YAMLError):
        return None  # a broken run; the list shows it
