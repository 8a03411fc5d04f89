"""Lists the runs of a folder, with the state and the results of each."""

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from patchword.core.errors import UserError
from patchword.core.files import folder_bytes
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.run_folders.finished import finish_date, validation_metric, was_finished
from patchword.recipes.run_folders.records import EVALUATION, read_record
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.schema.recipe import Recipe
from patchword.training.lock.lock import owner_of

State = Literal["running", "finished", "stopped", "broken"]

_FILES = ("recipe.yaml", "metrics.jsonl", "machine.json", "evaluation.json", "checkpoints")  # only runs have them
_DEPTH = 2  # a run of a study is in the study's folder


@dataclass(frozen=True)
class RunSummary:
    """One run of a list. Numbers that are not known yet are None.

    name: the path inside the listed folder. problem: why the run is broken. epoch: how many epochs are done, of
    `epochs`. metric: the name of the main metric; validation: its best value; score: its value on `part` of the data
    ("test", or "validation" if there is no test set). seconds: of training. date: of the last epoch, or of the end.
    """

    name: str
    folder: Path
    state: State
    problem: str = ""
    kind: str = ""
    model: str = ""
    epoch: int = 0
    epochs: int = 0
    metric: str = ""
    validation: float | None = None
    score: float | None = None
    part: str = ""
    seconds: float | None = None
    date: str = ""
    bytes: int = 0

    def position(self) -> str:
        """Return the state in words, e.g. stopped at epoch 3 of 10."""
        if self.state == "broken":
            return f"broken: {self.problem}"
        if self.state == "finished":
            return "finished"
        if self.state == "stopped" and self.epoch >= self.epochs:
            return "trained, not evaluated"
        return f"{self.state} at epoch {self.epoch} of {self.epochs}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder)}


def list_run_folders(folder: Path) -> list[RunSummary]:
    """Return all runs of a folder, and those of its studies, in the order of their names."""
    if not folder.is_dir():
        hint = "`patchword train RECIPE` makes the folder runs; another one is given with --runs FOLDER"
        raise UserError(f"there is no folder {folder}", expected="a folder of runs", hint=hint)
    return [summary_of(found, str(found.relative_to(folder))) for found in run_folders(folder)]


def run_folders(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """Yield the folders of all runs below a folder, also of broken ones; hidden folders are none."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        with suppress(OSError):  # a folder that cannot be read, or was removed meanwhile
            if path.is_dir() and looks_like_run(path):
                yield path
            elif path.is_dir() and depth > 1 and not path.is_symlink():
                yield from run_folders(path, depth - 1)


def looks_like_run(folder: Path) -> bool:
    """Return whether a folder has a file that only runs have."""
    return any((folder / name).exists() for name in _FILES)


def summary_of(folder: Path, name: str) -> RunSummary:
    """Return the summary of a run; one that cannot be read is broken, with the reason."""
    size = folder_bytes(folder)
    try:
        return _summary(folder, name, size)
    except (UserError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return RunSummary(name, folder, "broken", problem=reason, bytes=size, date=_date(folder))


def _summary(folder: Path, name: str, size: int) -> RunSummary:
    if not (folder / "recipe.yaml").is_file():
        raise UserError("recipe.yaml is missing")
    run, recipe = RunFolder(folder), read_recipe(folder / "recipe.yaml")
    metrics, evaluation = run.metrics(), _evaluation(folder)
    key = validation_metric(metrics[-1]) if metrics else ""
    metric = str(evaluation.get("metric", "accuracy")) if evaluation else key.removeprefix("validation_")
    scores = [float(record[f"validation_{metric}"]) for record in metrics if f"validation_{metric}" in record]
    score = evaluation.get(metric)
    return RunSummary(
        name=name,
        folder=folder,
        state=_state(folder, recipe),
        kind=recipe.kind,
        model=recipe.model.name,
        epoch=int(metrics[-1]["epoch"]) if metrics else 0,
        epochs=recipe.epochs,
        metric=metric,
        validation=max(scores, default=None),
        score=float(score) if isinstance(score, (int, float)) and math.isfinite(score) else None,
        part=str(evaluation.get("part", "test")) if evaluation else "",
        seconds=float(metrics[-1]["seconds"]) if metrics else None,
        date=finish_date(folder) or _date(folder),
        bytes=size,
    )


def _state(folder: Path, recipe: Recipe) -> State:
    if owner_of(folder) is not None:
        return "running"
    return "finished" if was_finished(folder, recipe) else "stopped"


def _evaluation(folder: Path) -> dict[str, Any]:
    return read_record(folder, EVALUATION)


def _date(folder: Path) -> str:
    """Return when the last epoch ended, or when the run was started."""
    times = [(folder / name).stat().st_mtime for name in _FILES[:2] if (folder / name).exists()]
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(max(times))) if times else ""
