"""surface: the loss around the weights of one or several runs, drawn on one scale."""

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchword.cli.common import Device, Json, console, find_run
from patchword.cli.inspection.sharpness import BatchSize, Samples, Seed

if TYPE_CHECKING:
    from patchword.analysis.sharpness.landscape import Kind
    from patchword.inspection.sharpness import Opened
    from patchword.recipes.run import Run
    from patchword.reports.landscape.axes import Looked

PRODUCTS = 60  # with the Hessian, at most, for two eigenvectors


class Directions(StrEnum):
    RANDOM = "random"
    EIGEN = "eigen"


def surface(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or names below `runs`.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The picture; .svg and .npz lie beside it.")
    ] = Path("surface.png"),
    directions: Annotated[
        Directions, typer.Option("--directions", help="Random and filter-normalised, or leading eigenvectors.")
    ] = Directions.RANDOM,
    one_dimension: Annotated[bool, typer.Option("--one-dimension", help="Along one direction, as curves.")] = False,
    size: Annotated[int, typer.Option("--size", metavar="N", help="Points along an axis; odd.")] = 21,
    reach: Annotated[float, typer.Option("--reach", help="How far from the weights, each way.")] = 1.0,
    samples: Samples = 2048,
    batch: BatchSize = 0,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Draw the loss surface around the weights of runs, side by side on one scale: contours, hills, accuracy.

    Random directions are filter-normalised (Li et al., 2018): at 1 each filter has moved by its own length; biases and
    norms stay. Eigenvectors of the Hessian have length 1: there the surface is curved most. A curve is cheap:
    --one-dimension takes N points, the plane N x N. Each run also keeps its own in surface.json, and
    `patchword evaluate RUN` puts it into the report.

    Examples:

      patchword surface runs/vit runs/vit-sam
      patchword surface runs/vit runs/resnet --out vit-or-resnet.png --size 31
      patchword surface runs/vit --directions eigen --reach 0.5 --one-dimension
    """
    from patchword.analysis.sharpness.landscape import places
    from patchword.core.errors import UserError
    from patchword.core.files import make_folder
    from patchword.inspection.sharpness import Asked, open_run, same_data
    from patchword.reports.landscape.landscape import paths, write_surfaces
    from patchword.reports.landscape.saved import keep_surface

    at, asked = places(size, reach), Asked(samples, batch, seed, device)
    files, found = paths(out), [find_run(run) for run in runs]
    if not same_data(run.recipe() for run in found):
        typer.echo("these runs learned from different data: their losses are not of one kind", err=True)
    kind: Kind = "random" if directions is Directions.RANDOM else "eigen"
    count = 1 if one_dimension else 2
    for folder in (files[0].parent, *(run.folder for run in found)):
        make_folder(folder)
    looked: list[Looked] = []
    for run in found:
        opened = _named(open_run(run, asked), found)
        if looked and looked[0].loss_name != opened.loss_name:
            raise UserError("the losses of these runs lie on no common scale", got=opened.loss_name)
        if not as_json:
            _tell(opened, kind, len(at) ** count)
        looked.append(_one(opened, kind, count, at, seed))
    written = write_surfaces(looked, kind, out)
    for run, one in zip(found, looked, strict=True):
        keep_surface(run, one, kind)
    rows = [_row(one) for one in looked]
    if as_json:
        told = {"directions": kind, "reach": reach, "runs": rows, "files": [str(file) for file in written]}
        typer.echo(json.dumps(told, indent=2))
        return
    _print(rows)
    for file in written:
        console().print(str(file), highlight=False, markup=False)


def _named(opened: "Opened", runs: "list[Run]") -> "Opened":
    """Runs of one name in different folders are told apart by their paths."""
    same = [run.folder for run in runs if run.folder.absolute().name == opened.run.folder.absolute().name]
    return replace(opened, name=str(opened.run.folder)) if len(set(same)) > 1 else opened


def _tell(opened: "Opened", kind: "Kind", points: int) -> None:
    """What is computed and what it costs, before it begins."""
    from patchword.inspection.saved_sharpness import MODE

    loss, out = opened.loss, console(100)
    out.print(f"{opened.name}: {opened.sample}; mean {opened.loss_name}", highlight=False, markup=False)
    first = f"at most {min(PRODUCTS, loss.weights)} products with the Hessian, then " if kind == "eigen" else ""
    cost = f"{MODE} {first}{points:,} points, each a forward pass over the sample in {loss.in_pieces()}"
    out.print(cost, style="dim", highlight=False)


def _one(opened: "Opened", kind: "Kind", count: int, at: Any, seed: int) -> "Looked":
    from patchword.analysis.sharpness.landscape import directions, surface
    from patchword.cli.inspection.sharpness_progress import watching
    from patchword.reports.landscape.axes import Looked

    with watching() as watched:
        watched.pieces = opened.loss.passes
        loss = replace(opened.loss, tick=watched.tick)
        if kind == "eigen":
            watched.begin("eigenvectors", min(PRODUCTS, loss.weights))
        along = directions(loss, kind, count, seed, PRODUCTS, watched.heard)
        if watched.spectrum is not None and not all(watched.spectrum.converged):
            told = f"{opened.name}: the eigenvectors have not converged after {PRODUCTS} products: these are near"
            typer.echo(told, err=True)
        watched.begin(f"surface of {opened.name}", len(at) ** count)
        found = surface(loss, along, at)
    return Looked(opened.name, opened.sample, opened.loss_name, opened.has_accuracy, found)


def _row(looked: "Looked") -> dict[str, Any]:
    import torch

    found = looked.found
    finite = found.losses[found.losses.isfinite()]
    loss, accuracy = found.middle
    told = {"run": looked.name, "sample": looked.sample, "loss_name": looked.loss_name, "loss": loss}
    told |= {"mean_loss": float(finite.mean()), "highest_loss": float(finite.max())}
    told |= {"overflown": int((~found.losses.isfinite()).sum())}
    shares = {"accuracy": accuracy, "mean_accuracy": float(torch.nanmean(found.accuracies))}
    return told | (shares if looked.has_accuracy else {})


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    out, table = console(100), Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("run")
    for name in ("loss", "mean over the surface", "highest", "accuracy", "mean over the surface"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        losses = [f"{row[name]:.4g}" for name in ("loss", "mean_loss", "highest_loss")]
        shares = [f"{100 * row[name]:.2f}%" for name in ("accuracy", "mean_accuracy") if name in row]
        table.add_row(row["run"], *losses, *shares)
    out.print(table, highlight=False)
    if lost := sum(row["overflown"] for row in rows):
        out.print(f"at {lost} points the loss is too large for a number; they are left blank", style="yellow")
