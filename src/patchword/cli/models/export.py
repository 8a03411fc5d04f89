"""export: a model as a file that other programs run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Model, Settings, console, model_of

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.models.registry import Model as AnyModel
    from patchword.weights.export.export import Exported


def export(
    model: Model,
    onnx: Annotated[Path | None, typer.Option("--onnx", metavar="FILE.onnx", help="Write an ONNX file.")] = None,
    program: Annotated[
        Path | None, typer.Option("--torch", metavar="FILE.pt2", help="Write a program for torch.export.load.")
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Matrices and tables of a text model as 8-bit integers, in the ONNX file.")
    ] = False,
    batch: Annotated[
        str,
        typer.Option("--batch-size", metavar="dynamic|N", help="Images or texts at a time: any number, or always N."),
    ] = "dynamic",
    size: Annotated[
        str, typer.Option("--size", metavar="HxW", help="Size of the images, e.g. 224x320.", show_default="the model's")
    ] = "",
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            min=0,
            help="Largest difference allowed, relative to the scores' scale.",
            show_default="1e-4; with --int8 the loss is told, and any is taken",
        ),
    ] = None,
    settings: Settings = None,
) -> None:
    """Export a model to ONNX or PyTorch's own format, and compare the file's answers with the model's.

    A file that answers otherwise is not kept. Labels and what to feed it with are in its metadata.

    Examples:

      patchword export runs/demo --onnx demo.onnx
      patchword export runs/classify-text --onnx small.onnx --int8
    """
    from patchword.core.errors import UserError
    from patchword.models import REGISTRY
    from patchword.weights.export.export import expected_seconds
    from patchword.weights.export.export import export as write
    from patchword.weights.export.formats import FORMATS

    targets = {suffix: path for suffix, path in ((".onnx", onnx), (".pt2", program)) if path}
    if not targets:
        raise UserError("nothing to write", expected="--onnx FILE.onnx or --torch FILE.pt2")
    for suffix, path in targets.items():
        if path.suffix != suffix:
            raise UserError(f"cannot export to {path}", expected=f"a name that ends in {suffix}")
        FORMATS[suffix].require()
    sides, count = _size(size), _batch(batch)
    found, remarks, out = model_of(model, settings), {}, console()
    if int8 and (program or REGISTRY.reads_images(found.card.model)):
        raise UserError("--int8 is for models of texts", expected="--onnx FILE.onnx of such a model alone")
    if size and not REGISTRY.reads_images(found.card.model):
        raise UserError("--size is for models of images", got=found.card.model)
    if model in REGISTRY.names():
        _stir(found)
        remarks["weights"] = "random"
        out.print(f"{model} is a name, so its weights are random; a run or a checkpoint has trained ones")
    for path in targets.values():
        seconds = expected_seconds(found, path, sides)
        time = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
        out.print(f"exporting {found.card.model}: about {time} on a free core", highlight=False, markup=False)
        _tell(out, write(found, path, size=sides, batch=count, int8=int8, tolerance=tolerance, remarks=remarks))


def _size(text: str) -> tuple[int, int] | None:
    from patchword.core.errors import UserError

    height, _, width = text.lower().partition("x")
    if text and not (height.isdecimal() and width.isdecimal() and int(height) and int(width)):
        raise UserError(f"cannot read the size {text!r}", expected="height x width, e.g. 224x320")
    return (int(height), int(width)) if text else None


def _batch(text: str) -> int | None:
    from patchword.core.errors import UserError

    if text != "dynamic" and not (text.isdecimal() and int(text)):
        raise UserError(f"cannot read the batch {text!r}", expected="dynamic, or a number from 1")
    return None if text == "dynamic" else int(text)


def _stir(model: "AnyModel") -> None:
    """A head that starts as zeros scores zero, which would agree with a wrong file, too: it gets random numbers."""
    from torch import nn

    for weights in model.parameters():
        if weights.ndim > 1 and not weights.any():
            nn.init.trunc_normal_(weights, std=0.02)


def _tell(out: "Console", done: "Exported") -> None:
    labels = json.loads(done.notes["labels"])
    some = ", ".join(labels[:4]) + (f", ... ({len(labels):,})" if len(labels) > 4 else "")
    batches = " and ".join(map(str, done.batches))
    pixels = [f"           mean {done.notes['mean']}, std {done.notes['std']}"] if "mean" in done.notes else []
    for line in (
        f"{done.path}: {done.size / 1e6:,.1f} MB, {done.detail}, {done.seconds:.1f} s",
        f"  input    {done.notes['input']}",
        *pixels,
        f"  output   {done.notes['output']}",
        f"  labels   {some or 'none'}",
        f"  checked  {done.reader}, batch {batches}: differs from the model by {done.difference:.1e} of the scale",
    ):
        out.print(line, highlight=False, markup=False)
