"""landscape: draws the loss landscape around the weights of one or several runs, on one scale."""

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchword.cli.common import Device, Json, console, find_writable_run
from patchword.cli.completion import run_names
from patchword.cli.inspection.sharpness import BatchSize, Samples, Seed

if TYPE_CHECKING:
    from patchword.analysis.sharpness.landscape import Kind
    from patchword.inspection.sharpness import Opened
    from patchword.recipes.run import Run
    from patchword.reports.landscape.axes import RunLandscape

PRODUCTS = 60  # maximum number of Hessian-vector products for two eigenvectors


class Directions(StrEnum):
    RANDOM = "random"
    EIGEN = "eigen"


def landscape(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders, or names inside `runs`.", autocompletion=run_names),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Output figure; .svg and .npz are written beside it.")
    ] = Path("landscape.png"),
    directions: Annotated[
        Directions, typer.Option("--directions", help="random: filter-normalised; eigen: leading eigenvectors.")
    ] = Directions.RANDOM,
    one_dimension: Annotated[bool, typer.Option("--one-dimension", help="Curves along one direction.")] = False,
    size: Annotated[int, typer.Option("--size", metavar="N", help="Points per axis; an odd number.")] = 21,
    radius: Annotated[float, typer.Option("--radius", help="Distance from the weights to the border.")] = 1.0,
    samples: Samples = 2048,
    batch: BatchSize = 0,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Draw the loss landscape around the weights of runs, side by side on one scale: contours, surfaces, accuracy.

    Random directions are filter-normalised (Li et al., 2018): at distance 1 each filter has moved by its own norm;
    biases and norms do not move. Eigenvectors of the Hessian have length 1 and show the directions of largest
    curvature. --one-dimension is cheap: N points instead of N x N. Each run keeps its own numbers in landscape.json,
    and `patchword evaluate RUN` adds them to the report.

    Examples:

      patchword landscape runs/vit runs/vit-sam
      patchword landscape runs/vit runs/resnet --out vit-or-resnet.png --size 31
      patchword landscape runs/vit --directions eigen --radius 0.5 --one-dimension
    """
    from patchword.analysis.sharpness.landscape import places
    from patchword.core.errors import UserError
    from patchword.core.files import make_folder
    from patchword.inspection.sharpness import SampleOptions, open_run, same_data
    from patchword.reports.landscape.landscape import paths, write_landscapes
    from patchword.reports.landscape.saved import save_landscape

    at, options = places(size, radius), SampleOptions(samples, batch, seed, device)
    files, found = paths(out), [find_writable_run(run) for run in runs]
    if not same_data(run.recipe() for run in found):
        typer.echo("these runs were trained on different data: do not compare their losses", err=True)
    kind: Kind = "random" if directions is Directions.RANDOM else "eigen"
    count = 1 if one_dimension else 2
    for folder in (files[0].parent, *(run.folder for run in found)):
        make_folder(folder)
    landscapes: list[RunLandscape] = []
    for run in found:
        opened = _named(open_run(run, options), found)
        if landscapes and landscapes[0].loss_name != opened.loss_name:
            raise UserError("these runs have different losses, which one scale cannot show", got=opened.loss_name)
        if not as_json:
            _announce(opened, kind, len(at) ** count)
        landscapes.append(_one(opened, kind, count, at, seed))
    written = write_landscapes(landscapes, kind, out)
    for run, one in zip(found, landscapes, strict=True):
        save_landscape(run, one, kind)
    rows = [_row(one) for one in landscapes]
    if as_json:
        record = {"directions": kind, "radius": radius, "runs": rows, "files": [str(file) for file in written]}
        typer.echo(json.dumps(record, indent=2))
        return
    _print(rows)
    for file in written:
        console().print(str(file), highlight=False, markup=False)


def _named(opened: "Opened", runs: "list[Run]") -> "Opened":
    """Runs of the same name in different folders are shown by their paths."""
    same = [run.folder for run in runs if run.folder.absolute().name == opened.run.folder.absolute().name]
    return replace(opened, name=str(opened.run.folder)) if len(set(same)) > 1 else opened


def _announce(opened: "Opened", kind: "Kind", points: int) -> None:
    """Print what is computed and how much work it is, before it starts."""
    from patchword.inspection.saved_sharpness import MODE

    loss, out = opened.loss, console(100)
    out.print(f"{opened.name}: {opened.sample}; mean {opened.loss_name}", highlight=False, markup=False)
    first = f"at most {min(PRODUCTS, loss.weights)} Hessian-vector products, then " if kind == "eigen" else ""
    cost = f"{MODE} {first}{points:,} points, each a forward pass over the sample in {loss.batches_text()}"
    out.print(cost, style="dim", highlight=False)


def _one(opened: "Opened", kind: "Kind", count: int, at: Any, seed: int) -> "RunLandscape":
    from patchword.analysis.sharpness.landscape import directions, loss_landscape
    from patchword.cli.inspection.sharpness_progress import progress_bars
    from patchword.reports.landscape.axes import RunLandscape

    with progress_bars() as bars:
        bars.batches = opened.loss.passes
        loss = replace(opened.loss, tick=bars.tick)
        if kind == "eigen":
            bars.begin("eigenvectors", min(PRODUCTS, loss.weights))
        along = directions(loss, kind, count, seed, PRODUCTS, bars.on_spectrum)
        if bars.spectrum is not None and not all(bars.spectrum.converged):
            message = (
                f"{opened.name}: the eigenvectors have not converged after {PRODUCTS} products; they are estimates"
            )
            typer.echo(message, err=True)
        bars.begin(f"landscape of {opened.name}", len(at) ** count)
        found = loss_landscape(loss, along, at)
    return RunLandscape(opened.name, opened.sample, opened.loss_name, opened.has_accuracy, found)


def _row(landscape: "RunLandscape") -> dict[str, Any]:
    import torch

    found = landscape.found
    finite = found.losses[found.losses.isfinite()]
    loss, accuracy = found.middle
    record = {
        "run": landscape.name,
        "sample": landscape.sample,
        "loss_name": landscape.loss_name,
        "loss": loss,
    }
    record |= {"mean_loss": float(finite.mean()), "highest_loss": float(finite.max())}
    record |= {"nonfinite": int((~found.losses.isfinite()).sum())}
    accuracies = {"accuracy": accuracy, "mean_accuracy": float(torch.nanmean(found.accuracies))}
    return record | (accuracies if landscape.has_accuracy else {})


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    out, table = console(100), Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("run")
    for name in ("loss", "mean loss", "highest loss", "accuracy", "mean accuracy"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        losses = [f"{row[name]:.4g}" for name in ("loss", "mean_loss", "highest_loss")]
        accuracies = [f"{100 * row[name]:.2f}%" for name in ("accuracy", "mean_accuracy") if name in row]
        table.add_row(row["run"], *losses, *accuracies)
    out.print(table, highlight=False)
    if lost := sum(row["nonfinite"] for row in rows):
        out.print(f"the loss is not finite at {lost} points; they are left blank", style="yellow")
