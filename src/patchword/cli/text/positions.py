"""positions: trains every position encoding on short texts and tests it on longer ones."""

import json
from pathlib import Path
from typing import Annotated

import typer

from patchword.cli.common import Json, console


def positions(
    schemes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENCODING]...", help="Encodings to compare, e.g. learned shaw; all if none is named."),
    ] = None,
    length: Annotated[int, typer.Option("--length", min=4, max=128, help="Tokens per training text.")] = 24,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Training steps per encoding.")] = 400,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the weights and the texts.")] = 0,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Output folder for the table and figures.")
    ] = Path("positions"),
    as_json: Json = False,
) -> None:
    """Compare position encodings: train a small BERT with each on short texts, test it on texts up to 4 times as long.

    Shows which encodings are smooth, data-driven and inductive, in one table and figures of accuracy and similarity.

    Examples:

      patchword positions
      patchword positions learned sinusoidal shaw --length 32 --steps 800
    """
    from patchword.core.errors import UserError, nearest
    from patchword.core.files import make_folder
    from patchword.reports.comparison.positions import ABOUT, positions_grid, to_json, write_positions
    from patchword.studies.text_positions import SCHEMES, Exercise, study

    for name in schemes or ():
        if name not in SCHEMES:
            raise UserError(f"no position encoding is called {name!r}", hint=nearest(name, SCHEMES))
    chosen = [scheme for scheme in SCHEMES if not schemes or scheme in schemes]
    task, screen = Exercise(length=length, steps=steps, seed=seed), console(100)
    make_folder(out)
    found = list(study(chosen, task, lambda words: None if as_json else screen.print(words, highlight=False)))
    files = write_positions(found, task, out)
    if as_json:
        typer.echo(json.dumps({**to_json(found, task), "files": [str(file) for file in files]}, indent=2))
        return
    positions_grid(found, task).print(screen)
    screen.print(f"[dim]{ABOUT.format(length=length)}[/dim]", highlight=False)
    solver = next((one.solver for one in found if one.solver is not None), None)
    if solver is not None:
        screen.print(f"FLOATER's solver differs from one with 8 times finer steps by {solver:.1e} (relative)")
    for file in files:
        screen.print(str(file), highlight=False, markup=False)
