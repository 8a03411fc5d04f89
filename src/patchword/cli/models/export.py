"""export: writes a model as an ONNX file or a torch.export program."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import typer

from patchword.cli.common import (
    Download,
    Fields,
    Model,
    Settings,
    console,
    fetch_model,
    fields_of,
    model_of,
    settings_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from patchword.models.registry import Model as AnyModel
    from patchword.weights.export.export import Exported


def export(
    model: Model,
    fields: Fields = None,
    onnx: Annotated[Path | None, typer.Option("--onnx", metavar="FILE.onnx", help="Write an ONNX file.")] = None,
    program: Annotated[
        Path | None, typer.Option("--torch", metavar="FILE.pt2", help="Write a program for torch.export.load.")
    ] = None,
    triton: Annotated[
        Path | None,
        typer.Option("--triton", metavar="FOLDER", help="Add an ONNX file to a repository of Triton Inference Server."),
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Quantise the weights of a text model to 8 bits, in the ONNX file.")
    ] = False,
    batch: Annotated[
        str,
        typer.Option("--batch-size", metavar="dynamic|N", help="Batch size that the file accepts: any, or only N."),
    ] = "dynamic",
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=1, help="Length of the texts that the file accepts.", show_default="any"),
    ] = None,
    size: Annotated[
        str, typer.Option("--size", metavar="HxW", help="Size of the images, e.g. 224x320.", show_default="the model's")
    ] = "",
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            min=0,
            help="Largest difference allowed, relative to the scale of the scores.",
            show_default="1e-4; with --int8 any difference is accepted and printed",
        ),
    ] = None,
    classes: Annotated[
        bool, typer.Option("--class-map", help="Of a segmenter: write the class of each pixel, not the logits.")
    ] = False,
    settings: Settings = None,
    download: Download = False,
) -> None:
    """Export a model to ONNX or PyTorch's own format, and check that the file gives the same outputs.

    A file whose outputs differ is not kept. Labels and the expected input are in its metadata.

    --triton writes FOLDER/NAME/1/model.onnx with config.pbtxt and labels.txt; the same model again is version 2.

    Examples:

      patchword export runs/demo --onnx demo.onnx
      patchword export runs/demo --triton models
      patchword export runs/classify-text --onnx small.onnx --int8
      patchword export my-detector --onnx detector.onnx --size 800x1344
      patchword export my-segmenter --onnx segmenter.onnx --class-map
    """
    from patchword.core.errors import UserError
    from patchword.weights.export.triton import TritonModel

    limits = _Limits(read_size(size), _batch(batch), tolerance, tokens)
    words = settings_of(settings, fields)
    if triton and onnx:
        raise UserError("two places for an ONNX file", expected="one of --onnx and --triton")
    with TritonModel.of(triton, model).new_version() if triton else nullcontext(onnx) as file:
        _export(model, words, file, program, int8, limits, classes, download)
        if triton:
            text = f"{triton} is a model repository: tritonserver --model-repository {triton}"
            console().print(text, highlight=False, markup=False, soft_wrap=True)


def _export(
    model: str,
    settings: "list[str]",
    onnx: Path | None,
    program: Path | None,
    int8: bool,
    limits: "_Limits",
    classes: bool,
    download: bool,
) -> None:
    from patchword.cli.models.detectors import is_detector
    from patchword.cli.models.segmenters import is_segmenter
    from patchword.core.errors import UserError
    from patchword.models import REGISTRY
    from patchword.weights.export.export import expected_seconds
    from patchword.weights.export.export import export as write
    from patchword.weights.export.formats import FORMATS

    targets = {suffix: path for suffix, path in ((".onnx", onnx), (".pt2", program)) if path}
    if not targets:
        raise UserError("no output was chosen", expected="--onnx FILE.onnx, --torch FILE.pt2 or --triton FOLDER")
    for suffix, path in targets.items():
        if path.suffix != suffix:
            raise UserError(f"cannot export to {path}", expected=f"a name that ends in {suffix}")
        FORMATS[suffix].require()
    fetch_model(model, download)
    if is_segmenter(model):
        _export_segmenter(model, settings, _only_onnx(model, "segmenter", onnx, program or int8), limits, classes)
        return
    if classes:
        raise UserError("--class-map is for segmenters", got=model)
    if is_detector(model):
        _export_detector(model, settings, _only_onnx(model, "detector", onnx, program or int8), limits)
        return
    found, remarks, out = model_of(model, settings), {}, console()
    if int8 and (program or REGISTRY.reads_images(found.card.model)):
        raise UserError("--int8 is for text models", expected="a text model with --onnx FILE.onnx")
    if limits.tokens and REGISTRY.reads_images(found.card.model):
        raise UserError("--tokens is for text models", got=found.card.model)
    if limits.size and not REGISTRY.reads_images(found.card.model):
        raise UserError("--size is for image models", got=found.card.model)
    if model in REGISTRY.names():
        _randomize_zeros(found)
        remarks["weights"] = "random"
        out.print(f"{model} is a registry name, so its weights are random; a run or a checkpoint has trained weights")
    for path in targets.values():
        seconds = expected_seconds(found, path, limits.size, limits.tokens)
        time = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
        out.print(f"exporting {found.card.model}: about {time} on a free core", highlight=False, markup=False)
        _print(out, write(found, path, int8=int8, remarks=remarks, **limits._asdict()))


class _Limits(NamedTuple):
    """Size of the images, batch size, tolerance and length of the texts; None for the default."""

    size: tuple[int, int] | None
    batch: int | None
    tolerance: float | None
    tokens: int | None

    def of_images(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if name != "tokens"}


def _only_onnx(model: str, kind: str, path: Path | None, other: object) -> Path:
    """Return the path of the ONNX file; another format, or --int8, is an error."""
    from patchword.core.errors import UserError

    if path is None or other:
        raise UserError(f"{model!r} is a {kind}", expected="--onnx FILE.onnx alone, without --torch and --int8")
    return path


def _export_detector(model: str, settings: "Iterable[str] | None", path: Path, limits: _Limits) -> None:
    from patchword.models.detection import DETECTORS, create_detector
    from patchword.weights import load
    from patchword.weights.export.detection import export_detector, spread_scores

    overrides, remarks, out = fields_of(settings or ()), {}, console()
    if model not in DETECTORS:
        detector = cast(Any, load(model, **overrides))
    else:
        detector = create_detector(model, **overrides).eval()
        spread_scores(detector)
        remarks["weights"] = "random"
        out.print(f"{model} is a registry name, so its weights are random; a saved detector has trained weights")
    out.print(f"exporting {detector.card.model}: a minute or two on a free core", highlight=False, markup=False)
    _print(out, export_detector(detector, path, remarks=remarks, **limits.of_images()))


def _export_segmenter(model: str, settings: "Iterable[str] | None", path: Path, limits: _Limits, classes: bool) -> None:
    from patchword.models.segmentation import SEGMENTERS, create_segmenter
    from patchword.weights import load_segmenter
    from patchword.weights.export.segmentation import export_segmenter

    overrides, remarks, out = fields_of(settings or ()), {}, console()
    if model not in SEGMENTERS:
        segmenter = load_segmenter(model, **overrides)
    else:
        segmenter = create_segmenter(model, **overrides).eval()
        remarks["weights"] = "random"
        out.print(f"{model} is a registry name, so its weights are random; a saved segmenter has trained weights")
    out.print(f"exporting {segmenter.card.model}: a minute or two on a free core", highlight=False, markup=False)
    output: Literal["classes", "logits"] = "classes" if classes else "logits"
    _print(out, export_segmenter(segmenter, path, output=output, remarks=remarks, **limits.of_images()))


def read_size(text: str) -> tuple[int, int] | None:
    """Parse HEIGHTxWIDTH; an empty text is None."""
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


def _randomize_zeros(model: "AnyModel") -> None:
    """Replace weights that are all zero by random numbers: a zero head would agree with a wrong file, too."""
    from torch import nn

    for weights in model.parameters():
        if weights.ndim > 1 and not weights.any():
            nn.init.trunc_normal_(weights, std=0.02)


def _print(out: "Console", done: "Exported") -> None:
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
        f"  checked  {done.reader}, batch {batches}: relative difference to the model {done.difference:.1e}",
    ):
        out.print(line, highlight=False, markup=False)
