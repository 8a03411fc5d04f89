"""fill: predicts the words at [MASK]."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Device, Download, Json, console, fetch_model
from patchword.cli.completion import run_names

if TYPE_CHECKING:
    from patchword.recipes.text.inference.filling import Gap


def fill(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A run of bert-pretrain, a masked model's folder, zoo:NAME, hf:OWNER/REPO.",
            autocompletion=run_names,
        ),
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence with [MASK] in it, in quotation marks.")],
    top: Annotated[int, typer.Option("--top", min=1, help="How many words to show per mask.")] = 5,
    pieces: Annotated[bool, typer.Option("--pieces", help="Also show word pieces such as ##ing.")] = False,
    device: Device = "auto",
    download: Download = False,
    as_json: Json = False,
) -> None:
    """Predict the words at [MASK], the task that BERT is pretrained on.

    Several masks are predicted at once, independently of each other.

    Word pieces (##ing) are shown where the mask follows a letter, or with --pieces.

    Examples:

      patchword fill runs/bert "The [MASK] sat on the mat."
      patchword fill runs/bert "[MASK] is the capital of [MASK]." --top 3
    """
    from patchword.pipelines.fillings import Fillings
    from patchword.pipelines.texts import TextEngine

    fetch_model(model, download)
    gaps = Fillings(text, TextEngine.open(model, device).fill(text, top, pieces))
    if as_json:
        record = {"text": text, "filled": gaps.filled, "gaps": [gap.to_json() for gap in gaps]}
        typer.echo(json.dumps(record, ensure_ascii=False))
        return
    for number, gap in enumerate(gaps, 1):
        _print_gap(gap, f"mask {number} of {len(gaps)}" if len(gaps) > 1 else "")
    if len(gaps) > 1:
        console().print(f"with the most likely words: {gaps.filled}", highlight=False, markup=False)


def _print_gap(gap: "Gap", title: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("word", "probability", "sentence", title=title or None, title_justify="left")
    for filling in gap.fillings:
        table.add_row(Text(filling.word), f"{filling.probability:.1%}", Text(filling.sentence))
    console().print(table)
