"""cost: counts parameters and multiply-accumulates, and shows how."""

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Download, Json, Settings, card_of, console, fetch_model
from patchword.cli.models.cost_steps import print_steps

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.analysis.cost import Cost
    from patchword.analysis.cost.rules import Kind
    from patchword.core.card import Card


def cost(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A model name of `patchword models`, a run folder, a checkpoint, or hf:OWNER/REPO.",
        ),
    ] = None,
    block: Annotated[int | None, typer.Option("--block", help="Count only this block, from 0.")] = None,
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
    as_json: Json = False,
    settings: Settings = None,
    download: Download = False,
) -> None:
    """Count the parameters and MACs of a model, a block or any part, and show the calculation.

    --formula compares global, window, cross-shaped and pale attention; without MODEL, for the first stage of swin-tiny.
    For a detector, anchors and boxes are counted, too.

    Examples:

      patchword cost vit-base-16
      patchword cost vit-base-16 --block 0 --steps
      patchword cost bert-base --tokens 512
      patchword cost mask-rcnn --set backbone=swin-tiny --size 800x1280
      patchword cost upernet --set backbone=swin-tiny --size 512x2048
      patchword cost swin-tiny --formula --out formulas
    """
    from patchword.analysis.cost import count, text_of
    from patchword.cli.models.detectors import is_detector, show_detector_cost
    from patchword.cli.models.export import read_size
    from patchword.cli.models.formula import formula as show_formula
    from patchword.cli.models.segmenters import is_segmenter, show_segmenter_cost
    from patchword.core.errors import UserError

    if model is not None:
        fetch_model(model, download)
    if formula:
        if block is not None or part or steps or tokens is not None:
            raise UserError("--formula counts the first stage only", expected="no --block, --part, --steps or --tokens")
        show_formula(model, settings, out, as_json)
        return
    if out is not None:
        raise UserError("--out needs --formula", expected="--formula --out FOLDER")
    if model is None:
        raise UserError("no model was named", expected="MODEL, or --formula", hint="`patchword models` lists all")
    if is_detector(model):
        if block is not None or tokens is not None:
            raise UserError(f"{model!r} is a detector", expected="no --block or --tokens", hint="--part backbone")
        show_detector_cost(model, settings, part, read_size(size), steps or bool(part), as_json)
        return
    if is_segmenter(model):
        if block is not None or tokens is not None:
            raise UserError(f"{model!r} is a segmenter", expected="no --block or --tokens", hint="--part backbone")
        show_segmenter_cost(model, settings, part, read_size(size), steps or bool(part), as_json)
        return
    if size:
        raise UserError(
            "--size is for detectors and segmenters", hint="the input size of an image model: --set image=384"
        )
    if block is not None and part:
        raise UserError("--block and --part exclude each other", expected="one of them")
    card = card_of(model, settings)
    text = None if tokens is None else text_of(card, tokens)
    chosen = count(card, _block_name(card, block) if block is not None else part, text)
    if as_json:
        typer.echo(json.dumps(chosen.to_json(), indent=2))
    else:
        print_cost(console(), chosen, steps or block is not None or bool(part), _mlp_ratio(card))


def _block_name(card: "Card", block: int) -> str:
    from patchword.analysis.cost import blocks_of
    from patchword.core.errors import UserError

    names = blocks_of(card)
    if not 0 <= block < len(names):
        raise UserError(f"{card.model!r} has no block {block}", expected=f"0 to {len(names) - 1}", got=block)
    return names[block]


def _mlp_ratio(card: "Card") -> str:
    """Return the hidden width of the feed-forward relative to the width; empty if the model has no such fields."""
    width, hidden = card.config.get("width"), card.config.get("hidden")
    if not isinstance(width, int) or not isinstance(hidden, int) or "bottleneck" in card.config:
        return ""
    return f"{hidden / width:g} (hidden {hidden:,} / width {width:,})"


def print_cost(out: "Console", chosen: "Cost", steps: bool, mlp_ratio: str = "") -> None:
    """Print the cost of a model or a part, with every step or one line per part."""
    from patchword.analysis.cost import CONVENTION

    size = " x ".join(str(side) for side in chosen.input)
    out.print(
        f"[bold]{chosen.model}[/bold]{f', {chosen.part}' if chosen.part else ''}, input {size}\n", highlight=False
    )
    if steps:
        print_steps(out, chosen)
    else:
        _print_parts(out, chosen)
    kinds: dict[Kind, str] = {
        "linear": "linear layers",
        "attention": "attention products",
        "convolution": "convolutions",
    }
    for kind, title in kinds.items():
        if macs := chosen.macs_of(kind):
            out.print(f"  {title:<20}{macs:>20,} MACs", highlight=False)
    out.print(f"  [bold]{'total':<20}{chosen.macs:>20,} MACs[/bold]", highlight=False)
    out.print(f"  [bold]{'parameters':<20}{chosen.parameters:>20,}[/bold]", highlight=False)
    if mlp_ratio:
        out.print(f"  {'MLP ratio':<20}{mlp_ratio:>20}", highlight=False)
    out.print()
    out.print(f"[dim]MACs: {CONVENTION}[/dim]", highlight=False)


def _print_parts(out: "Console", chosen: "Cost") -> None:
    """Print one line for the stem, for each sequence of equal blocks, and for the rest."""

    def key(name: str) -> tuple[str, int, int]:
        below = chosen.below(name)
        return name.rpartition(".")[0] if ".blocks." in name else name, below.macs, below.parameters

    groups = [(list(names), cost) for cost, names in groupby(_parts_in_order(chosen), key)]
    titles = [_range(names) for names, _ in groups]
    width = max(map(len, titles)) + 2
    out.print(f"  {'part':<{width}}{'MACs':>18}{'parameters':>16}", highlight=False)
    for title, (names, (_, macs, parameters)) in zip(titles, groups, strict=True):
        times = len(names)
        out.print(f"  {title:<{width}}{macs * times:>18,}{parameters * times:>16,}", highlight=False)
    out.print()


def _range(names: list[str]) -> str:
    """Return e.g. "stages.0.encoder.blocks.0 to 5"."""
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1].rpartition('.')[2]}"


def _parts_in_order(chosen: "Cost") -> list[str]:
    names: list[str] = []
    for line in chosen.lines:
        pieces = line.part.split(".")
        depth = pieces.index("blocks") + 2 if "blocks" in pieces else (3 if pieces[0] == "stages" else 1)
        name = ".".join(pieces[:depth])
        if name not in names:
            names.append(name)
    return names
