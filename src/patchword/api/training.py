"""train: trains a recipe, evaluates the best weights and writes the report."""

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path

from rich.console import Console

from patchword.api.callbacks import Callback, CallbackSupervision
from patchword.api.evaluation import finish
from patchword.api.results import result_of
from patchword.api.run import Run
from patchword.core.disk_space import format_bytes
from patchword.core.errors import UserError
from patchword.recipes import RECIPES
from patchword.recipes.model_choice import model_names
from patchword.recipes.recipe_kind import Evaluation
from patchword.recipes.resume import resumable
from patchword.recipes.run_folders.changes import checked_name
from patchword.recipes.run_folders.finished import finish_folder, is_finished
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.train import Supervision, check_is_utf8
from patchword.recipes.train import train as train_weights
from patchword.reports.plots.numbers import counted, measured, named
from patchword.studies import STUDIES, find_recipe
from patchword.training.console import run_console
from patchword.training.lock.lock import exclusive
from patchword.training.loggers.loggers import NO_LOGGERS, RunLoggers, check_loggers
from patchword.training.parallel.rank import is_main
from patchword.tuning.batch_size import with_batch_size
from patchword.weights.hub.download import fetch_all


def train(
    recipe: str | PathLike[str],
    *,
    name: str | None = None,
    runs: str | Path = "runs",
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
    download: bool = False,
    **fields: object,
) -> Run:
    """Train a recipe, evaluate the best weights on the test set, write the report, and return the run.

    Ctrl-C saves the run and raises KeyboardInterrupt; the same call with `resume=True` continues it.

    Args:
        recipe: the name of a recipe, a YAML file, or a run or its name, whose recipe is trained again; with `resume`,
            a name that a recipe and a run have means the run.
        name: name of the run; by default the recipe's.
        runs: folder that holds the runs.
        resume: resume the run of that name if it exists.
        callbacks: objects whose methods are called during the run; see `Callback`.
        quiet: print nothing.
        download: fetch a model of the hub (`model="hf:OWNER/REPO"`) that is not on this machine.
        fields: fields of the recipe to change; `patchword recipes cat NAME` lists them. Inner fields are given as a
            dictionary: `model={"name": "vit-tiny-16", "depth": 6}`.

    >>> run = patchword.train("image-folder-vit", data="photos", epochs=3)
    >>> run = patchword.train("fashion-mnist-vit", **{"model.depth": 6})
    """
    refuse_study(recipe)
    base, folder = recipe_and_folder(recipe, Path(runs), name, resume)
    chosen = base.with_values(fields)
    console = run_console(quiet=quiet or not is_main(), soft_wrap=True)
    print_duration(base, chosen, folder, console)
    if download:
        fetch_all(model_names(chosen))
    chosen = with_batch_size(chosen, folder, console, base.batch_size)
    supervision = CallbackSupervision(callbacks, folder)
    with _hints_for_python(), _resume_call(folder):
        train_recipe(chosen, folder, console, resume, supervision)
    run = Run(folder)
    if is_main():
        supervision.end(run)
    return run


def refuse_study(recipe: str | PathLike[str]) -> None:
    """Raise an error for the name of a study, which has several runs."""
    if fspath(recipe) in STUDIES:
        raise UserError(
            f"{recipe!r} is a study", expected="a recipe", hint=f"train it in a shell: patchword train {recipe}"
        )


def recipe_and_folder(
    recipe: str | PathLike[str], runs: Path, name: str | None = None, resume: bool = False
) -> tuple[Recipe, Path]:
    """Return a recipe and the folder of its run: of a run that is resumed, its own recipe and its own folder."""
    if resume and name is None and (folder := run_named(recipe, runs)) is not None:
        return read_recipe(folder / "recipe.yaml"), folder
    found, default = named_recipe(recipe, runs)
    return found, place_of(name, default, runs)


def place_of(name: str | None, default: str, runs: Path) -> Path:
    """Return the folder of a run or a study in `runs`."""
    check_is_utf8(runs)
    return runs / (default if name is None else checked_name(name, "the name of a run"))


def run_named(recipe: str | PathLike[str], runs: Path) -> Path | None:
    """Return the folder of a run, given by the folder or by its name in `runs`; None if there is none."""
    folders = (Path(recipe), runs / Path(recipe))
    return next((folder for folder in folders if (folder / "recipe.yaml").is_file()), None)


def named_recipe(recipe: str | PathLike[str], runs: Path = Path("runs")) -> tuple[Recipe, str]:
    """Return a recipe, and the name that its run has by default.

    recipe: its name, a YAML file, or a run by its folder or by its name in `runs`. A name that a recipe and a run have
        means the recipe.
    """
    file, folder = Path(recipe), run_named(recipe, runs)
    if folder is not None and (folder == file or fspath(recipe) not in RECIPES):
        file = folder / "recipe.yaml"
    found = read_recipe(file) if file.suffix in (".yaml", ".yml") else find_recipe(fspath(recipe))
    return found, file.absolute().parent.name if file.name == "recipe.yaml" else file.stem


def print_duration(base: Recipe, chosen: Recipe, folder: Path, console: Console) -> None:
    """Print how long the recipe takes, if it was measured and no field is changed."""
    if chosen == base and base.expect.time:
        console.print(f"{folder.name} takes {base.expect.time}", highlight=False, markup=False)


def train_recipe(
    recipe: Recipe, folder: Path, console: Console, resume: bool = False, supervision: Supervision | None = None
) -> None:
    """Train a recipe into a folder, evaluate the best weights on the test set, and write the report.

    A run that was finished before stays as it is; one whose result was removed is evaluated again. Raises
    KeyboardInterrupt if the run was stopped by a signal.
    """
    supervision = supervision or Supervision()
    if resume:
        check_epochs(recipe, folder)
    finished_before = resume and is_finished(folder) and (folder / "evaluation.json").is_file()
    with loggers_of(recipe, console) as loggers:
        finished = train_weights(recipe, folder, console, resume, supervision, loggers)
        if not finished and not supervision.ends_early():
            raise KeyboardInterrupt
        if not is_main():
            return
        if finished_before:
            report_finished(Run(folder), console)
            return
        evaluation = finish_run(recipe, folder, console, trained=finished)
        scores = result_of(recipe.kind, evaluation.summary())
        values = {f"{scores.part}_{name}".replace(" ", "_"): value for name, value in scores.scores.items()}
        loggers.result(values, [folder / name for name in ("report.html", "evaluation.json", "recipe.yaml")])


def finish_run(recipe: Recipe, folder: Path, console: Console, trained: bool = True) -> Evaluation:
    """Evaluate a run and write its report; if it is trained to its end, mark it as finished and remove its checkpoints.

    All of it under the lock: the run cannot be deleted, renamed or started again meanwhile.
    """
    with resumable(folder), exclusive(folder):
        evaluation = finish(Run(folder), console, recipe.device)
        if trained:
            tidy(recipe, folder, console)
    return evaluation


def loggers_of(recipe: Recipe, console: Console) -> RunLoggers:
    """Return the loggers of a run; of several processes, only the main one has any."""
    if not is_main():
        return NO_LOGGERS
    check_loggers(recipe.loggers)
    return RunLoggers.of(recipe.loggers, lambda text: console.print(text, highlight=False, markup=False))


def tidy(recipe: Recipe, folder: Path, console: Console) -> None:
    """Mark a run, whose lock is held, as finished, and remove its checkpoints, unless the recipe keeps them."""
    try:
        freed = finish_folder(folder, recipe.keep_checkpoints)
    except (UserError, OSError) as error:
        console.print(f"the checkpoints are kept: {error}", highlight=False, markup=False)
        return
    if freed:
        what = f"removed the checkpoints, which only an unfinished run needs: {format_bytes(freed)}"
        console.print(f"{what} (keep_checkpoints=true keeps them)", style="dim", highlight=False, markup=False)


def report_finished(run: Run, console: Console) -> None:
    """Print that there is nothing to resume, and the result."""
    result, metrics = run.evaluation(), run.metrics()
    epochs = counted(int(metrics[-1]["epoch"]) if metrics else 0, "epoch")
    score = f"{result.part} {named(result.metric)} {measured(result.metric, result.score)}"
    again = f"patchword evaluate {shlex.quote(str(run.folder))}"
    for line in (f"{run.folder} is finished: {epochs}, {score}", f"to evaluate it again: {again}"):
        console.print(line, highlight=False, markup=False)
    console.print(f"\nreport: {run.report}", highlight=False, markup=False)


def check_epochs(recipe: Recipe, folder: Path) -> None:
    """Refuse to change the epochs of a run: its learning rate schedule depends on their number."""
    if not (folder / "recipe.yaml").is_file() or not (folder / "model.safetensors").is_file():
        return
    before = read_recipe(folder / "recipe.yaml")
    if before.epochs != recipe.epochs and before.model_copy(update={"epochs": recipe.epochs}) == recipe.located():
        words = ["patchword", "train", folder / "recipe.yaml", f"model={folder}", f"epochs={recipe.epochs}"]
        place = ["--name", f"{folder.name}-longer", "--runs", folder.parent]
        onwards = shlex.join(str(word) for word in [*words, *place])
        raise UserError(
            f"{folder} was trained with another recipe: the learning rate schedule spans all epochs of a run",
            expected=f"epochs={before.epochs}",
            got=f"epochs={recipe.epochs}",
            hint=f"train from the start under another --name, or start a new run from its weights:\n{onwards}",
        )


@contextmanager
def _resume_call(folder: Path) -> Iterator[None]:
    """Add the call that resumes the run to a KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt:
        place = "" if folder.parent == Path("runs") else f", runs={str(folder.parent)!r}"
        call = f"resume the run with patchword.train({str(folder)!r}{place}, resume=True)"
        begun = (folder / "recipe.yaml").is_file()
        raise KeyboardInterrupt(f"stopped; {call if begun else 'nothing was written yet'}") from None


@contextmanager
def _hints_for_python() -> Iterator[None]:
    """Name arguments instead of options of the command line in the hints of errors; whole commands stay."""
    try:
        yield
    except UserError as error:
        lines = [line if line.startswith("patchword ") else _for_python(line) for line in error.hint.split("\n")]
        if (hint := "\n".join(lines)) == error.hint:
            raise
        raise type(error)(error.what, expected=error.expected, got=error.got, hint=hint) from None


def _for_python(text: str) -> str:
    return re.sub(r"--name\b", "name", re.sub(r"--resume\b", "resume=True", text))
