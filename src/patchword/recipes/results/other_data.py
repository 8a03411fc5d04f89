"""Evaluates a run on other data than its own; the results are in the folder `evaluations` of the run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from patchword.core.files import read_json, write_json
from patchword.recipes.evaluation import evaluated
from patchword.recipes.recipe_kind import Evaluation
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe

FOLDER = "evaluations"
_LONGEST = 80  # characters of a file name


@dataclass(frozen=True)
class RunOnOtherData(Run):
    """A run whose recipe has other fields than in its folder, such as other data."""

    changed: Recipe

    def recipe(self) -> Recipe:
        return self.changed


def evaluate_on(run: Run, settings: Sequence[str], device: str = "auto") -> tuple[Evaluation, RunOnOtherData, Path]:
    """Evaluate a run with changed fields, e.g. data=FOLDER, and write the result.

    Return the result, the run with these fields, and the path of the result. The run's own evaluation.json stays as it
    is. settings: `field=value`, as typed.
    """
    changed = run.recipe().with_settings(settings)
    about = f"Evaluated with {' '.join(settings)}. {changed.about}".strip()
    found = evaluated(run, changed, device)
    where = {"settings": list(settings), "recipe": changed.located().model_dump(mode="json")}
    path = _path(run.folder / FOLDER, settings, where)
    write_json(path, {**found.summary(), "on": where})
    return found, RunOnOtherData(run.folder, changed.model_copy(update={"about": about})), path


def _path(folder: Path, settings: Sequence[str], where: object) -> Path:
    """Return the file of a result: of the same data again the same one, of others with the same name a new one."""
    name = "-".join(f"{field}-{Path(value).name}" for field, _, value in (one.partition("=") for one in settings))
    name = re.sub(r"[^\w.]+", "-", name).strip("-.")[:_LONGEST] or "other"
    for number in count(1):
        path = folder / f"{name}{'' if number == 1 else f'-{number}'}.json"
        if not path.is_file() or read_json(path).get("on") == where:
            return path
    raise AssertionError("count is endless")
