"""sharpness: measures the curvature of a run's loss, and how far it rises near the weights."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchword.cli.common import Device, Json, RunArgument, console, find_writable_run

if TYPE_CHECKING:
    from patchword.analysis.sharpness.sharpness import SharpnessOptions
    from patchword.inspection.sharpness import Opened

Samples = Annotated[int, typer.Option("--samples", metavar="N", help="Number of training samples to use.")]
BatchSize = Annotated[int, typer.Option("--batch-size", metavar="N", help="Samples read at once; 0: as many as fit.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the samples and the random directions.")]


def sharpness(
    run: RunArgument,
    eigenvalues: Annotated[int, typer.Option("--eigenvalues", metavar="K", help="Number of leading eigenvalues.")] = 5,
    samples: Samples = 2048,
    rho: Annotated[float, typer.Option("--rho", help="Radius of the ball for epsilon-sharpness.")] = 0.05,
    iterations: Annotated[
        int, typer.Option("--iterations", metavar="N", help="Maximum Hessian-vector products for the eigenvalues.")
    ] = 60,
    probes: Annotated[int, typer.Option("--probes", metavar="N", help="Number of random vectors for the trace.")] = 20,
    steps: Annotated[int, typer.Option("--steps", metavar="N", help="Steps of gradient ascent in the ball.")] = 20,
    batch: BatchSize = 0,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure how sharp a run's minimum is: leading eigenvalues and trace of the Hessian, and epsilon-sharpness.

    Second derivatives are exact, over samples of the training set. The result is saved in RUN/sharpness.json, and
    `patchword evaluate RUN` adds it to the report.

    Examples:

      patchword sharpness runs/vit
      patchword sharpness runs/vit --eigenvalues 10 --samples 8192 --rho 0.1
      patchword sharpness runs/vit --json
    """
    from patchword.analysis.sharpness.sharpness import SharpnessOptions
    from patchword.cli.inspection.sharpness_progress import progress_bars
    from patchword.inspection.saved_sharpness import FILE, keep_sharpness
    from patchword.inspection.sharpness import SampleOptions, open_run

    options = SharpnessOptions(eigenvalues, iterations, probes, rho, steps, seed)
    sample = SampleOptions(samples, batch, seed, device)
    found, out = find_writable_run(run), console(100)
    with progress_bars() as bars:
        opened = open_run(found, sample)
        if not as_json:
            _announce(opened, options)
        bars.batches = opened.loss.passes
        opened = replace(opened, loss=replace(opened.loss, tick=bars.tick))
        kept = keep_sharpness(opened, sample, options, bars.begin, bars.on_spectrum)
    if as_json:
        typer.echo(json.dumps(kept, indent=2))
        return
    _print(kept)
    out.print(
        f"\nsaved in {found.folder / FILE}; `patchword evaluate {found.folder}` adds it to the report", style="dim"
    )


def _announce(opened: "Opened", options: "SharpnessOptions") -> None:
    """Print what is measured and how much work it is, before it starts."""
    from patchword.analysis.sharpness.hessian import AT_ONCE
    from patchword.inspection.saved_sharpness import MODE

    loss, out = opened.loss, console(100)
    out.print(f"{opened.name}: {opened.sample}; mean {opened.loss_name}", highlight=False, markup=False)
    out.print(MODE, style="dim", highlight=False)
    most, probes = min(options.products, loss.weights), -(-options.probes // AT_ONCE)
    held = loss.zeros().element_size() * loss.weights * most / 2**20
    cost = f"at most {most} Hessian-vector products for the eigenvalues ({held:,.0f} MB of vectors), {options.probes} "
    cost += f"for the trace in {probes} passes, {options.steps + 3} gradients for the ball; a pass reads the sample in "
    cost += f"{loss.batches_text()}"
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
