"""sharpness: the curvature of a run's loss, and how far it rises nearby."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchword.cli.common import Device, Json, RunArgument, console, find_run

if TYPE_CHECKING:
    from patchword.analysis.sharpness.sharpness import Wish
    from patchword.inspection.sharpness import Opened

Samples = Annotated[int, typer.Option("--samples", metavar="N", help="Training samples to read.")]
BatchSize = Annotated[int, typer.Option("--batch-size", metavar="N", help="Samples read at once; 0: as many as fit.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the choice of samples and of random directions.")]


def sharpness(
    run: RunArgument,
    eigenvalues: Annotated[int, typer.Option("--eigenvalues", metavar="K", help="How many of the largest.")] = 5,
    samples: Samples = 2048,
    rho: Annotated[float, typer.Option("--rho", help="Radius of the ball for epsilon-sharpness.")] = 0.05,
    iterations: Annotated[
        int, typer.Option("--iterations", metavar="N", help="Products with the Hessian, at most, for eigenvalues.")
    ] = 60,
    probes: Annotated[int, typer.Option("--probes", metavar="N", help="Random vectors for the trace.")] = 20,
    steps: Annotated[int, typer.Option("--steps", metavar="N", help="Steps of ascent in the ball.")] = 20,
    batch: BatchSize = 0,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure how sharp a run's minimum is: leading eigenvalues and trace of the Hessian, and epsilon-sharpness.

    Second derivatives are exact, over samples that the run was trained on. The result is kept in RUN/sharpness.json,
    and `patchword evaluate RUN` puts it into the report.

    Examples:

      patchword sharpness runs/vit
      patchword sharpness runs/vit --eigenvalues 10 --samples 8192 --rho 0.1
      patchword sharpness runs/vit --json
    """
    from patchword.analysis.sharpness.sharpness import Wish
    from patchword.cli.inspection.sharpness_progress import watching
    from patchword.inspection.saved_sharpness import FILE, keep_sharpness
    from patchword.inspection.sharpness import Asked, open_run

    wish = Wish(eigenvalues, iterations, probes, rho, steps, seed)
    asked = Asked(samples, batch, seed, device)
    found, out = find_run(run), console(100)
    with watching() as watched:
        opened = open_run(found, asked)
        if not as_json:
            _tell(opened, wish)
        watched.pieces = opened.loss.passes
        opened = replace(opened, loss=replace(opened.loss, tick=watched.tick))
        kept = keep_sharpness(opened, asked, wish, watched.begin, watched.heard)
    if as_json:
        typer.echo(json.dumps(kept, indent=2))
        return
    _print(kept)
    out.print(
        f"\nkept in {found.folder / FILE}; `patchword evaluate {found.folder}` puts it into the report", style="dim"
    )


def _tell(opened: "Opened", wish: "Wish") -> None:
    """What is measured and what it costs, before it begins."""
    from patchword.analysis.sharpness.hessian import AT_ONCE
    from patchword.inspection.saved_sharpness import MODE

    loss, out = opened.loss, console(100)
    out.print(f"{opened.name}: {opened.sample}; mean {opened.loss_name}", highlight=False, markup=False)
    out.print(MODE, style="dim", highlight=False)
    most, probes = min(wish.products, loss.weights), -(-wish.probes // AT_ONCE)
    held = loss.zeros().element_size() * loss.weights * most / 2**20
    cost = f"at most {most} products with the Hessian for the eigenvalues ({held:,.0f} MB of vectors), {wish.probes} "
    cost += f"for the trace in {probes} passes, {wish.steps + 3} gradients for the ball; a pass reads the sample in "
    cost += f"{loss.in_pieces()}"
    out.print(cost, style="dim", highlight=False)


def _print(kept: dict[str, Any]) -> None:
    from rich.table import Table

    from patchword.reports.landscape.sharpness import rows

    out = console(100)
    accuracy = f", accuracy {100 * kept['accuracy']:.2f}%" if kept["accuracy"] is not None else ""
    out.print(f"\nloss {kept['loss']:.4f}{accuracy}\n", highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, side in (("measure", "left"), ("value", "right"), ("", "left")):
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    for line in rows(kept):
        table.add_row(*line)
    out.print(table, highlight=False)
    if not all(one["converged"] for one in kept["eigenvalues"]):
        words = f"some eigenvalues have not converged after {kept['products']} products: try --iterations "
        out.print(f"{words}{2 * kept['products']}", style="yellow", highlight=False)
