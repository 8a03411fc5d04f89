"""train --dry-run and train --find-lr: what to know before a run starts."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.api.tuning import LearningRateRamp
    from patchword.recipes import Recipe

DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print data, steps, MACs, memory, time and disk of the run, from a few steps; write nothing."
    ),
]
FindLrOption = Annotated[
    bool,
    typer.Option(
        "--find-lr", help="Try rising learning rates for about 100 steps; suggest one, and draw NAME-learning-rate.png."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="With --dry-run or --find-lr: print the result as JSON.")]


def check_before_training(dry_run: bool, find_lr: bool, as_json: bool, several: bool, resume: bool) -> None:
    """Raise an error for options that do not go together. several: whether there are several runs or processes"""
    from patchword.core.errors import UserError

    chosen = [name for name, given in (("--dry-run", dry_run), ("--find-lr", find_lr)) if given]
    if len(chosen) == 2:
        raise UserError("--dry-run and --find-lr cannot be combined", expected="one of them")
    if as_json and not chosen:
        raise UserError("--json prints the result of --dry-run or --find-lr", hint="add one of them, or leave it out")
    if chosen and resume:
        raise UserError(f"{chosen[0]} looks at a new run", expected="no --resume")
    if chosen and several:
        raise UserError(
            f"{chosen[0]} looks at one run in one process",
            expected="a recipe, without --seeds and --processes",
            hint="each seed takes as long as the one run",
        )


def before_training(
    recipe: "Recipe",
    folder: Path,
    out: "Console",
    find_lr: bool,
    as_json: bool,
    words: Sequence[str],
    place: Sequence[str] = (),
) -> None:
    """Print the dry run of a recipe, or the learning rate that is found.

    words: the command that trains it. place: its options for the folder of the run
    """
    from rich.console import Console

    quiet = Console(quiet=True) if as_json else out
    if find_lr:
        fixed = [f"batch_size={recipe.batch_size}" if word == "batch_size=auto" else word for word in words]
        _print_ramp(_ramp(recipe, folder.name, quiet), out, as_json, fixed, place)
        return
    from patchword.tuning import dry_run

    found = dry_run.dry_run(recipe, folder, quiet, dry_run.SECONDS)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
        return
    out.print("\n[bold]dry run[/bold]: nothing is written; time and memory are estimates", highlight=False)
    for line in found.lines():
        out.print(line, highlight=False, markup=False)


def _ramp(recipe: "Recipe", name: str, console: "Console") -> "LearningRateRamp":
    from patchword.api.tuning import LearningRateRamp
    from patchword.cli.text.answers import progress
    from patchword.tuning import lr_finder

    with progress(lr_finder.STEPS, "steps") as bar:
        found = lr_finder.find_lr(recipe, console, lr_finder.STEPS, progress=lambda done, total: bar(1))
    return LearningRateRamp(**vars(found), name=name)


def _print_ramp(
    ramp: "LearningRateRamp", out: "Console", as_json: bool, words: Sequence[str], place: Sequence[str]
) -> None:
    figure = Path(f"{ramp.name}-learning-rate.png")
    ramp.save_figure(figure)
    if as_json:
        typer.echo(json.dumps({**ramp.to_json(), "figure": str(figure)}, indent=2))
        return
    lines = [f"\n{ramp}", f"figure: {figure}"]
    if ramp.suggestion is not None:
        kept = [word for word in words if not word.startswith("learning_rate=")]
        lines += [
            "It is a start for a comparison: the ramp sees the first steps only. To train with it:",
            f"  {shlex.join([*kept, f'learning_rate={ramp.suggestion:g}', *place])}",
        ]
    for line in lines:
        out.print(line, highlight=False, markup=False)
