"""positions: every positional encoding trained on short texts and tested on longer ones."""

import json
from pathlib import Path
from typing import Annotated

import typer

from patchword.cli.common import Json, console


def positions(
    schemes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCHEME]...", help="Which to compare, e.g. learned shaw; without, all."),
    ] = None,
    length: Annotated[int, typer.Option("--length", min=4, max=128, help="Tokens of the texts to learn from.")] = 24,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of training for each scheme.")] = 400,
    seed: Annotated[int, typer.Option("--seed", help="Of the weights and the texts.")] = 0,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where table and pictures go.")] = Path(
        "positions"
    ),
    as_json: Json = False,
) -> None:
    """Train a small BERT with each positional encoding on short texts, and test it on texts up to 4 times as long.

    Shows which encodings are smooth, data-driven and inductive: one table, and pictures of accuracy and similarity.
    """
    from patchword.core.errors import UserError, nearest
    from patchword.core.files import make_folder
    from patchword.reports.comparison.positions import ABOUT, positions_grid, told, write_positions
    from patchword.studies.text_positions import SCHEMES, Exercise, study

    for name in schemes or ():
        if name not in SCHEMES:
            raise UserError(f"no positional scheme is called {name!r}", hint=nearest(name, SCHEMES))
    chosen = [scheme for scheme in SCHEMES if not schemes or scheme in schemes]
    task, screen = Exercise(length=length, steps=steps, seed=seed), console(100)
    make_folder(out)
    found = list(study(chosen, task, lambda words: None if as_json else screen.print(words, highlight=False)))
    files = write_positions(found, task, out)
    if as_json:
        typer.echo(json.dumps({**told(found, task), "files": [str(file) for file in files]}, indent=2))
        return
    positions_grid(found, task).print(screen)
    screen.print(f"[dim]{ABOUT.format(length=length)}[/dim]", highlight=False)
    solver = next((one.solver for one in found if one.solver is not None), None)
    if solver is not None:
        screen.print(f"FLOATER's solver differs from steps 8 times finer by {solver:.1e} of the largest number")
    for file in files:
        screen.print(str(file), highlight=False, markup=False)
