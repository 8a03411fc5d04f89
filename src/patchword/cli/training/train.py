"""train: from a recipe to a run."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Runs, console, finish, stopped
from patchword.cli.training.launch import launch, one_run_only
from patchword.cli.training.study_tables import SeedsTable, Table, table_of

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.recipes import Recipe
    from patchword.recipes.run import Run
    from patchword.studies import Study


def train(
    recipe: Annotated[
        str, typer.Argument(metavar="RECIPE", help="A recipe's or a study's name, a YAML file, or a run's folder.")
    ],
    fields: Annotated[list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="Fields to change.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="A field to change; can be repeated.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The run's name; by default the recipe's.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run of that name, if it has begun.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds", metavar="NUMBER", help="Train from so many seeds, and tell mean, standard deviation and median."
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", min=1, metavar="NUMBER", help="Share every batch among so many processes.")
    ] = 1,
    restarts: Annotated[
        int, typer.Option("--restarts", min=0, metavar="NUMBER", help="Starts anew when one of several dies.")
    ] = 3,
    runs: Runs = Path("runs"),
) -> None:
    """Train a recipe, evaluate the best weights on the test set once, and write the report.

    A study trains several recipes that differ in one thing, and brings them into one table and one picture.

    --seeds 5 trains the same recipe from the seeds 0 to 4 (or from the recipe's seed on), each into a folder of its
    own, and writes results.md, results.json, results.csv and a picture beside them: a small data set can move a result
    by more than the change you try. With --resume, seeds that are done are not repeated; a larger number adds seeds.
    A study does each of its runs from so many seeds.
    --processes 8 shares every batch among 8 processes, on a GPU each or on the CPU: the batch, the order of the samples
    and the result stay those of one process. If one dies, all go on from the newest checkpoint. docs/scale.md has more.
    sam=0.05 is SAM, with two gradients a step (twice the time). teacher=RUN learns from another model, too.

    Examples:

      patchword train fashion-mnist-vit
      patchword train fashion-mnist-vit epochs=5 model.depth=6
      patchword train image-folder-vit data=my/pictures
      patchword train fashion-mnist-families
      patchword train fashion-mnist-vit sam=0.05
      patchword train deit-distillation teacher=runs/fashion-mnist-resnet
      patchword train fashion-mnist-vit --processes 2
      patchword train sharpness-aware --seeds 3
      patchword train classify-text model=runs/bert train=reviews.csv --seeds 5
      patchword train tag model=runs/bert train=names.conll test=others.conll
      patchword train over-vectors vectors=words.txt train=names.conll
    """
    from patchword.recipes.reading import read_recipe
    from patchword.studies import STUDIES, find_recipe
    from patchword.studies.seeds import check_seeds_folder, over_seeds, study_over_seeds
    from patchword.training.parallel.rank import is_main, rank_of

    changes, out = [*(settings or []), *(fields or [])], console(quiet=not is_main())
    if processes > 1 or rank_of() is not None:
        one_run_only(seeds is not None or recipe in STUDIES)
    if processes > 1 and rank_of() is None:
        place = [*(("--name", name) if name else ()), "--runs", str(runs), *(("--resume",) if resume else ())]
        words = [sys.executable, "-m", "patchword", "train", recipe, *changes, *place]
        raise typer.Exit(
            launch(words, processes, restarts, lambda text: out.print(text, highlight=False, markup=False))
        )
    again = ["patchword", "train", recipe, *changes]
    if recipe in STUDIES:
        study = STUDIES[recipe]().with_settings(changes)
        if seeds is not None:
            study, again = study_over_seeds(study, seeds), [*again, "--seeds", str(seeds)]
        _several(Several(study, runs / (name or recipe), again, table_of(study)), out, resume)
        return
    file = Path(recipe) / "recipe.yaml" if (Path(recipe) / "recipe.yaml").is_file() else Path(recipe)
    base = read_recipe(file) if file.suffix in (".yaml", ".yml") else find_recipe(recipe)
    chosen = base.with_settings(changes)
    folder = runs / (name or (file.absolute().parent.name if file.name == "recipe.yaml" else file.stem))
    if seeds is not None:
        study = over_seeds(folder.name, chosen, seeds)
        check_seeds_folder(folder)
        _several(Several(study, folder, [*again, "--seeds", str(seeds)], SeedsTable()), out, resume)
        return
    if chosen == base and base.expect.time:
        out.print(f"{folder.name} takes {base.expect.time}", highlight=False, markup=False)
    _run(chosen, folder, out, resume)


def _run(recipe: "Recipe", folder: Path, out: "Console", resume: bool) -> None:
    from patchword.recipes.resume import resumable
    from patchword.recipes.run import Run
    from patchword.recipes.train import train as run_recipe
    from patchword.training.parallel.rank import is_main
    from patchword.training.signals import breakable

    if resume:
        _check_epochs(recipe, folder)
    with breakable():
        try:
            if not run_recipe(recipe, folder, out, resume):
                stopped(folder, out)
            if is_main():
                with resumable(folder):
                    finish(Run(folder), out, recipe.device)
        except KeyboardInterrupt:
            stopped(folder, out)


def _check_epochs(recipe: "Recipe", folder: Path) -> None:
    """A run cannot be lengthened: how its learning rate falls follows from the number of its epochs."""
    from patchword.core.errors import UserError
    from patchword.recipes.reading import read_recipe

    if not (folder / "recipe.yaml").is_file() or not (folder / "model.safetensors").is_file():
        return
    before = read_recipe(folder / "recipe.yaml")
    if before.epochs != recipe.epochs and before.model_copy(update={"epochs": recipe.epochs}) == recipe.located():
        words = ["patchword", "train", folder / "recipe.yaml", f"model={folder}", f"epochs={recipe.epochs}"]
        place = ["--name", f"{folder.name}-longer", "--runs", folder.parent]
        onwards = shlex.join(str(word) for word in [*words, *place])
        raise UserError(
            f"{folder} was begun with another recipe: the learning rate falls over all epochs of a run",
            expected=f"epochs={before.epochs}",
            got=f"epochs={recipe.epochs}",
            hint=f"train from the start under another --name, or go on from its weights as a new run:\n{onwards}",
        )


@dataclass(frozen=True)
class Several:
    """Runs that belong together: where they go, the command that goes on with them, and how they are told."""

    study: "Study"
    folder: Path
    words: Sequence[str]
    table: Table

    def again(self) -> str:
        place = ["--name", self.folder.name, "--runs", str(self.folder.parent), "--resume"]
        return shlex.join([*self.words, *place])


def _several(several: Several, out: "Console", resume: bool) -> None:
    """Each run in its own folder; with `resume`, runs that are done are not repeated."""
    from patchword.recipes.run import Run
    from patchword.reports.plots.numbers import counted
    from patchword.studies.study import results

    folder = several.folder
    study = several.study.possible(lambda text: out.print(text, highlight=False, markup=False))
    study.check(folder)
    out.print(f"{study.about} {counted(len(study.runs), 'run')}; {study.time}.", highlight=False, markup=False)
    try:
        for number, (label, recipe) in enumerate(study.runs.items(), 1):
            done = (folder / label / "evaluation.json").is_file()
            told = f"\n[bold]{number} of {len(study.runs)}: {label}[/bold]{' (done)' if done else ''}"
            out.print(told, highlight=False)
            if not (done and resume):
                _run(recipe, folder / label, out, resume)
            _measure(study, Run(folder / label), recipe.device, out)
    except (typer.Exit, KeyboardInterrupt) as stop:
        told = f"\nthe whole {several.table.name} goes on with:\n  {several.again()}"
        out.print(told, highlight=False, markup=False)
        raise typer.Exit(stop.exit_code if isinstance(stop, typer.Exit) else 130) from None
    rows = results(study, folder)
    for path in several.table.tell(study, rows, folder, out):
        out.print(str(path), highlight=False, markup=False)


def _measure(study: "Study", run: "Run", device: str, out: "Console") -> None:
    """What the study asks for beyond the evaluation and is not known yet; it joins the run's report."""
    from patchword.cli.text.answers import progress
    from patchword.recipes.evaluation import evaluate
    from patchword.reports import write_report

    missing = [measure for measure in study.measured if measure.known(run) is None]
    for measure in missing:
        out.print(f"measuring the {measure.name}", highlight=False, markup=False)
        with progress(1, "of all") as bar:
            measure.measure(run, device, bar)
    if missing:
        write_report(run, evaluate(run, device))
