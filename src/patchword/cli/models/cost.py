"""cost: counts parameters and multiply-accumulates, and shows how."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from patchword.cli.common import Download, Fields, Json, Settings, card_of, fetch_model, settings_of
from patchword.cli.completion import model_names

if TYPE_CHECKING:
    from patchword.analysis.cost import Cost

Format = Literal["text", "markdown", "latex"]


def cost(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A model name of `patchword models`, a run folder, a checkpoint, zoo:NAME, or hf:OWNER/REPO.",
            autocompletion=model_names,
        ),
    ] = None,
    fields: Fields = None,
    block: Annotated[
        int | None,
        typer.Option("--block", help="Count only this block, from 1, through all stages; -1 is the last."),
    ] = None,
    part: Annotated[str, typer.Option("--part", help="Count only this part, named as in `patchword show`.")] = "",
    steps: Annotated[bool, typer.Option("--steps", help="Show every formula with its numbers.")] = False,
    formula: Annotated[
        bool, typer.Option("--formula", help="Show the papers' formulas for attention, for the first stage.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="With --formula: draw MACs and time, into this folder."),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", min=1, help="Length of the text for text models; 128 by default.")
    ] = None,
    size: Annotated[
        str,
        typer.Option(
            "--size",
            metavar="HxW",
            help="Height and width of the images of a detector or a segmenter.",
            show_default="800x1280, 512x512",
        ),
    ] = "",
    form: Annotated[
        Format, typer.Option("--format", help="How to print it; Markdown and LaTeX (amsmath) for a hand-in.")
    ] = "text",
    as_json: Json = False,
    settings: Settings = None,
    download: Download = False,
) -> None:
    """Count the parameters and MACs of a model, a block or any part, and show the calculation.

    --steps, --block and --part show how every size and every number is computed, and write the sums out. Blocks count
    from 1, as layers do in papers; names of parts count from 0, as in PyTorch: block 1 of a ViT is
    stages.0.encoder.blocks.0.

    --formula compares global, window, cross-shaped and pale attention; without MODEL, for the first stage of swin-tiny.
    For a detector, anchors and boxes are counted, too.

    Examples:

      patchword cost vit-base-16
      patchword cost vit-base-16 --block 1 --steps
      patchword cost vit-exercise --block 1 --format latex
      patchword cost vit-base-16 image=384 mlp_ratio=3
      patchword cost bert-base --tokens 512
      patchword cost mask-rcnn backbone=swin-tiny --size 800x1280
      patchword cost upernet backbone=swin-tiny --size 512x2048
      patchword cost swin-tiny --formula --out formulas
    """
    from patchword.core.errors import UserError

    if model is not None and "=" in model and not Path(model).exists():
        fields, model = [model, *(fields or [])], None
    changes = settings_of(settings, fields)
    if model is not None:
        fetch_model(model, download)
    if as_json and form != "text":
        raise UserError("--json and --format exclude each other", expected="one of them")
    if formula:
        from patchword.cli.models.formula import formula as show_formula

        if block is not None or part or steps or tokens is not None or form != "text":
            expected = "no --block, --part, --steps, --tokens or --format"
            raise UserError("--formula counts the first stage only", expected=expected)
        show_formula(model, changes, out, as_json)
        return
    if out is not None:
        raise UserError("--out needs --formula", expected="--formula --out FOLDER")
    if model is None:
        raise UserError("no model was named", expected="MODEL, or --formula", hint="`patchword models` lists all")
    if block is not None and part:
        raise UserError("--block and --part exclude each other", expected="one of them")
    found = _counted(model, changes, block, part, tokens, size)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    wanted = steps or block is not None or bool(part)
    writers = {"text": found.to_text, "markdown": found.to_markdown, "latex": found.to_latex}
    typer.echo(writers[form](wanted))


def _counted(model: str, settings: list[str], block: int | None, part: str, tokens: int | None, size: str) -> "Cost":
    """Return the cost of a model, a detector or a segmenter, or of a part of it."""
    from patchword.analysis.cost import block_of, count, text_of
    from patchword.cli.models.detectors import detector_cost, is_detector
    from patchword.cli.models.export import read_size
    from patchword.cli.models.segmenters import is_segmenter, segmenter_cost
    from patchword.core.errors import UserError

    for kind, holds, counted in (
        ("detector", is_detector, detector_cost),
        ("segmenter", is_segmenter, segmenter_cost),
    ):
        if holds(model):
            if block is not None or tokens is not None:
                raise UserError(f"{model!r} is a {kind}", expected="no --block or --tokens", hint="--part backbone")
            return counted(model, settings, part, read_size(size))
    if size:
        raise UserError(
            "--size is for detectors and segmenters", hint="the input size of an image model: --set image=384"
        )
    card = card_of(model, settings)
    text = None if tokens is None else text_of(card, tokens)
    return count(card, part if block is None else block_of(card, block), text)
