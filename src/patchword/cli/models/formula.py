"""cost --formula: prints the papers' formulas for one attention layer, with their numbers, beside the count."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from patchword.cli.common import card_of, console

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.analysis.cost.expression import Symbol
    from patchword.analysis.formula import Sizes
    from patchword.core.card import Card

DEFAULT = "swin-tiny"  # its first stage has 56 x 56 tokens of 96 channels


def formula(model: str | None, settings: Sequence[str] | None, folder: Path | None, as_json: bool) -> None:
    """Print the four formulas for the first stage of a model, and draw them if a folder is given."""
    from patchword.analysis.formula import first_stage
    from patchword.core.files import make_folder

    card = card_of(model or DEFAULT, settings)
    sizes = first_stage(card)
    if folder is not None:
        make_folder(folder)
    if as_json:
        typer.echo(json.dumps(to_json(card, sizes), indent=2))
    else:
        print_formulas(console(), card, sizes)
    if folder is not None:
        from patchword.training.console import PrintableConsole

        draw(sizes, folder, PrintableConsole(stderr=True, soft_wrap=True) if as_json else console())


def print_formulas(out: "Console", card: "Card", sizes: "Sizes") -> None:
    from patchword.analysis.cost import CONVENTION
    from patchword.analysis.formula import KINDS, counted, differences

    image = " x ".join(str(side) for side in _input(card))
    out.print(
        f"[bold]One attention layer[/bold] on {sizes.height} x {sizes.width} tokens of {sizes.channels} channels: "
        f"the first stage of {card.model}, input {image}\n",
        highlight=False,
    )
    letters: dict[str, Symbol] = {}
    for kind in KINDS:
        expression, count = kind.formula(sizes), counted(kind, sizes)
        letters |= expression.symbols
        works = (("linear", count.linear), ("attention", count.attention), ("convolution", count.convolution))
        parts = " + ".join(f"{macs:,} {name}" for name, macs in works if macs)
        out.print(f"[bold]{kind.name}[/bold]: {kind.title} [dim]({kind.source})[/dim]", highlight=False)
        out.print(f"  formula  {expression.working()}", highlight=False)
        out.print(f"  counted  {parts} = {count.total:,}", highlight=False)
        out.print(f"           {_verdict(count.total - expression.value, differences(kind, sizes))}", highlight=False)
        out.print(f"  [dim]{kind.note}[/dim]\n", highlight=False)
    named = ", ".join(f"{name} = {value} ({meaning})" for name, (value, meaning, _) in letters.items())
    out.print(f"[dim]{named}[/dim]\n", highlight=False)
    out.print("[dim]counted: our own layer of this kind, without position encoding[/dim]")
    out.print(f"[dim]MACs: {CONVENTION}[/dim]", highlight=False)


def _verdict(difference: int, reasons: Sequence[str]) -> str:
    if difference == 0:
        return "[green]equal[/green]"
    more = "more" if difference > 0 else "less"
    return f"[yellow]{abs(difference):,} {more} than the formula: {'; '.join(reasons)}[/yellow]"


def _input(card: "Card") -> tuple[int, ...]:
    from patchword.core.grid import sides

    return (1, card.config["channels"], *sides(card.config["image"]))


def to_json(card: "Card", sizes: "Sizes") -> dict[str, Any]:
    """Return the formulas and the counts as a JSON record."""
    from patchword.analysis.cost import CONVENTION
    from patchword.analysis.formula import KINDS, counted, differences

    layers: list[dict[str, Any]] = []
    for kind in KINDS:
        expression, count = kind.formula(sizes), counted(kind, sizes)
        layers.append(
            {
                "kind": kind.name,
                "title": kind.title,
                "source": kind.source,
                "formula": {"working": expression.working(), "value": expression.value},
                "counted": {**vars(count), "total": count.total},
                "difference": count.total - expression.value,
                "reasons": differences(kind, sizes),
                "note": kind.note,
                "symbols": {
                    name: {"value": one.value, "meaning": one.meaning} for name, one in expression.symbols.items()
                },
            }
        )
    return {"model": card.model, "input": list(_input(card)), **vars(sizes), "convention": CONVENTION, "layers": layers}


def sides_around(sizes: "Sizes") -> range:
    """Return map sides up to twice the model's, at most a minute of work; multiples of the papers' window sizes."""
    step = 14 if sizes.height >= 28 else 7
    return range(step, min(112, max(2 * sizes.height, 28)) + 1, step)


def draw(sizes: "Sizes", folder: Path, out: "Console") -> None:
    """Measure the layers and draw cost and time over the resolution."""
    from rich.progress import track

    from patchword.analysis.formula import KINDS, counted, measured
    from patchword.core.device import machine, pick_device
    from patchword.reports.comparison.formulas import Curve, write_formulas

    device, every = pick_device("auto"), [sizes.at(side) for side in sides_around(sizes)]
    layers = [(kind, one) for kind in KINDS for one in every]
    out.print(f"\nmeasuring {len(layers)} layers takes about a minute on a CPU", highlight=False)
    bar = track(layers, "measuring", console=out, transient=True, disable=not out.is_interactive)
    seconds = {(kind.name, one.height): measured(kind, one, device) for kind, one in bar}
    curves = [
        Curve(
            kind.name,
            [kind.formula(one).value for one in every],
            [counted(kind, one).total for one in every],
            [seconds[kind.name, one.height] for one in every],
        )
        for kind in KINDS
    ]
    about = machine(device)
    name = f"CPU ({about['processor']})" if about["device"] == "cpu" else about["device"]
    groups = f"M = {sizes.window}, sw = {sizes.stripe}, s_r = s_c = {sizes.pale}"
    caption = f"One attention layer, {sizes.channels} channels, {groups}. Lines: the papers' formulas; marks: counted. "
    caption += f"Time: median of repeated calls, batch 1, float32, torch {about['torch']}, on {name}."
    for path in write_formulas([one.height for one in every], curves, caption, folder):
        out.print(f"written: {path}", highlight=False, markup=False)
