"""A finished run: the file that says so, and the removal of what only an unfinished run needs.

A run is finished once its best weights are evaluated and its report is written; then finished.json is written, and only
then are the checkpoints removed. So a kill at any moment leaves a run that resumes, or a finished run.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.core.files import write_json
from patchword.core.seal.changing import remove_staging
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.run_folders.records import read_record
from patchword.recipes.run_folders.sealing import finishing
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.schema.recipe import Recipe
from patchword.training.checkpoint.removal import remove_checkpoints
from patchword.training.lock.lock import exclusive

FINISHED = "finished.json"


def is_finished(folder: Path) -> bool:
    """Return whether the run is marked as finished; runs of earlier versions have no mark."""
    return (folder / FINISHED).is_file()


def was_finished(folder: Path, recipe: Recipe) -> bool:
    """Return whether a run, marked or not, has trained to its end, and is evaluated."""
    return is_finished(folder) or (is_evaluated(folder) and _reached_its_end(RunFolder(folder), recipe))


def is_evaluated(folder: Path) -> bool:
    """Return whether a run has weights and their result; better weights remove the result of earlier ones."""
    return (folder / "model.safetensors").is_file() and (folder / "evaluation.json").is_file()


def mark_finished(folder: Path) -> None:
    """Write finished.json, after which the run is never trained again."""
    metrics = RunFolder(folder).metrics()
    epochs = int(metrics[-1]["epoch"]) if metrics else 0
    with finishing(folder) as files:
        write_json(files / FINISHED, {"finished": time.strftime("%Y-%m-%d %H:%M:%S"), "epochs": epochs})


def finish_folder(folder: Path, keep_checkpoints: bool) -> int:
    """Mark a run as finished and remove its checkpoints; return how many bytes that freed. The caller has the lock."""
    mark_finished(folder)
    return 0 if keep_checkpoints else remove_checkpoints(folder / "checkpoints")


def clean(folder: Path) -> int:
    """Remove the checkpoints of a finished run, also of one that has no mark; return how many bytes that freed."""
    recipe = read_recipe(RunFolder(folder).folder / "recipe.yaml")
    with exclusive(folder):
        if not was_finished(folder, recipe):
            raise UserError(
                f"{folder} is not finished: its checkpoints are needed to resume it",
                expected="a run that is trained to its end and evaluated",
                hint=f"resume it: patchword train {folder} --resume; or remove it: patchword runs delete {folder}",
            )
        if not is_finished(folder):
            mark_finished(folder)
        remove_staging(folder)
        return remove_checkpoints(folder / "checkpoints")


def finish_date(folder: Path) -> str:
    """Return when the run was finished; empty for a run of an earlier version."""
    return str(read_record(folder, FINISHED).get("finished", "")) if is_finished(folder) else ""


def _reached_its_end(run: RunFolder, recipe: Recipe) -> bool:
    """Return whether the last epoch is done, or `patience` epochs have passed without a better validation score."""
    metrics = run.metrics()
    if not metrics or metrics[-1]["epoch"] >= recipe.epochs:
        return bool(metrics)
    return bool(recipe.patience) and len(metrics) - 1 - best_index(metrics) >= recipe.patience


def best_index(metrics: Sequence[Mapping[str, Any]]) -> int:
    """Return the index of the record whose weights were kept: the best score, of equal ones the lowest loss."""
    scores = [(float(record[validation_metric(record)]), -float(record["validation_loss"])) for record in metrics]
    return scores.index(max(scores))


def validation_metric(record: Mapping[str, Any]) -> str:
    """Return the key of the score that selects the best epoch: the first one after the validation loss."""
    keys = [name for name in record if name.startswith("validation_") and name != "validation_loss"]
    return keys[0] if keys else ""
