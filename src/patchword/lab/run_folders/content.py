"""What a run's folder contains, for the page. Files that are missing or cannot be read are left out."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.recipes.results.mistakes import read_mistakes
from patchword.recipes.run_folders.finished import validation_metric
from patchword.recipes.schema.fields import flat_fields
from patchword.recipes.schema.reading import read_recipe
from patchword.training.progress_files import CONFUSION, STEPS, read_lines
from patchword.training.run_log import read_metrics

MOST_POINTS = 2000  # of a curve
MOST_CELLS = 200_000  # of all confusion matrices of a run
MOST_EPOCHS = 1_000_000_000
DEEPEST = 20  # levels of the values of a run

T = TypeVar("T")


def content_of(folder: Path) -> dict[str, Any]:
    """Return the recipe, the curves, the result, the confusion matrices and the mistakes of a run."""
    metrics, evaluation = metrics_of(folder), _object(folder / "evaluation.json")
    matrices = confusions_of(folder)
    found: dict[str, Any] = finite(
        {
            "recipe": _recipe(folder),
            "metrics": thinned(metrics, MOST_POINTS),
            "steps": thinned(steps_of(folder), MOST_POINTS),
            "metric": validation_metric(metrics[-1]).removeprefix("validation_") if metrics else "",
            "evaluation": {name: value for name, value in evaluation.items() if name not in ("confusion", "classes")},
            "classes": _classes(folder, evaluation),
            "confusion": _within_cells(matrices),
            "test": evaluation.get("confusion"),
            "mistakes": _mistakes(folder),
            "machine": _object(folder / "machine.json"),
        }
    )
    return found


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl that have an epoch."""
    try:
        found = read_metrics(folder / "metrics.jsonl")
    except OSError:
        return []
    return [one for one in found if isinstance(one.get("epoch"), int | float) and 0 <= one["epoch"] < MOST_EPOCHS]


def steps_of(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of steps.jsonl that have a step."""
    return [record for record in read_lines(folder / STEPS) if isinstance(record.get("step"), int)]


def confusions_of(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of confusion.jsonl that have an epoch and counts."""
    records = read_lines(folder / CONFUSION)
    return [one for one in records if isinstance(one.get("epoch"), int) and isinstance(one.get("counts"), list)]


def mistake_image(folder: Path, number: int) -> bytes:
    """Return the image of a mistake as PNG; nothing if there is none."""
    found = read_mistakes(folder) or []
    return found[number].image if 0 <= number < len(found) else b""


def thinned(values: Sequence[T], most: int) -> list[T]:
    """Return at most this many values at even distances, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(index * (len(values) - 1) / (most - 1))] for index in range(most)]


def finite(value: Any, depth: int = DEEPEST) -> Any:
    """Return a value with None in place of each non-finite number, which JSON does not have.

    depth: levels of lists and objects; what is deeper is None, too
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, (dict, list, tuple)):
        return value
    if depth == 0:
        return None
    if isinstance(value, dict):
        return {name: finite(one, depth - 1) for name, one in value.items()}
    return [finite(one, depth - 1) for one in value]


def _within_cells(matrices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not matrices:
        return []
    cells = max(1, len(matrices[0]["counts"]) ** 2)
    return thinned(matrices, max(2, MOST_CELLS // cells))


def _recipe(folder: Path) -> dict[str, Any]:
    try:
        return dict(flat_fields(read_recipe(folder / "recipe.yaml").model_dump(mode="json")))
    except (UserError, OSError, ValueError):
        return {}


def _object(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path) if path.is_file() else {}
    except (UserError, OSError):
        return {}
    return found if isinstance(found, dict) else {}


def _classes(folder: Path, evaluation: dict[str, Any]) -> list[str]:
    found = evaluation.get("classes") or _object(folder / "config.json").get("labels") or []
    return [str(name) for name in found] if isinstance(found, list) else []


def _mistakes(folder: Path) -> list[dict[str, Any]] | None:
    found = read_mistakes(folder)
    if found is None:
        return None
    return [{**one.to_json(), "image": bool(one.image)} for one in found]
