"""A run never begins again over its own results, whatever was removed from its folder."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from patchword.core.errors import UserError
from patchword.core.seal.checking import check
from patchword.core.seal.manifest import SEAL, read_seal
from patchword.recipes.run_folders.finished import FINISHED, is_finished
from patchword.recipes.run_folders.records import EVALUATION
from patchword.training.checkpoint.checkpoint import Checkpoints
from patchword.training.checkpoint.origin import origin_of
from patchword.training.run_log import METRICS, read_metrics

_WEIGHTS = "model.safetensors"


def has_results(folder: Path) -> bool:
    """Return False for a run that failed before it saved anything; it may be started again."""
    if any((folder / name).is_file() for name in (_WEIGHTS, EVALUATION, FINISHED)):
        return True
    if any((folder / "checkpoints").glob("*")) or read_metrics(folder / METRICS):
        return True
    seal = read_seal(folder)
    return seal is not None and (seal.has_checkpoint or _WEIGHTS in seal.files)


def check_recipe_is_there(folder: Path) -> None:
    """Raise an error for results without the recipe of their run."""
    if not (folder / "recipe.yaml").is_file():
        raise _lost(folder, "its recipe.yaml is missing", "RECIPE")


def check_resumable(folder: Path) -> None:
    """Raise an error for a run whose files have changed, or that has lost what it resumes from."""
    seal = check(folder)
    checkpoints = Checkpoints(folder / "checkpoints").all()
    if seal is None and any(origin_of(checkpoint) for checkpoint in checkpoints):
        raise UserError(
            f"{folder / SEAL} is missing",
            expected="the seal of the run, whose id its checkpoints have",
            hint=f"restore it from a copy; or seal the folder as it is: patchword verify {folder} --reseal",
        )
    if checkpoints or is_finished(folder):
        return
    begun = seal.has_checkpoint if seal else (folder / EVALUATION).is_file() or bool(read_metrics(folder / METRICS))
    if begun:
        raise _lost(folder, f"there is no checkpoint in {folder / 'checkpoints'}", folder / "recipe.yaml")


def _lost(folder: Path, missing: str, recipe: str | Path) -> UserError:
    hint = f"restore it from a copy of the run; a new run would be:\n{_new_run(folder, recipe)}"
    if recipe != "RECIPE":
        hint = f"if the run is finished: patchword runs clean {shlex.quote(str(folder))}\n{hint}"
    return UserError(f"{folder} has results of a run and cannot begin again over them", got=missing, hint=hint)


def _new_run(folder: Path, recipe: str | Path) -> str:
    """Return the command that starts a new run of the recipe beside this one."""
    number = next(number for number in range(2, 10_000) if not folder.with_name(f"{folder.name}-{number}").exists())
    words: Sequence[object] = [
        "patchword",
        "train",
        recipe,
        "--name",
        f"{folder.name}-{number}",
        "--runs",
        folder.parent,
    ]
    return shlex.join(map(str, words))
