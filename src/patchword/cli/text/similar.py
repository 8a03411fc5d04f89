"""similar: compares the vectors of one word in several sentences."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Device, Download, Json, console, fetch_model
from patchword.cli.completion import run_names

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.recipes.text.inference.similarity import Similarity


def similar(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A run, a model's folder, zoo:NAME, or hf:OWNER/REPO.", autocompletion=run_names
        ),
    ],
    word: Annotated[str, typer.Argument(metavar="WORD", help="The word to compare, e.g. bank.")],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="SENTENCE...", help="Sentences with the word, a file of them, or - for stdin."),
    ] = None,
    layers: Annotated[
        list[int] | None,
        typer.Option("--layer", help="Which layer besides layer 0; -1 (default) is the last. Repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Output folder for similar.png and similar.svg.")
    ] = None,
    text: Annotated[
        str, typer.Option("--text", metavar="COLUMN", help="The table column with the sentences.")
    ] = "text",
    device: Device = "auto",
    download: Download = False,
    as_json: Json = False,
) -> None:
    """Compare one word's vector across sentences: the deeper the layer, the more it depends on the context.

    The table shows the cosine similarity between the word's vectors in each pair of sentences.

    Examples:

      patchword similar minilm bank "We sat on the bank." "The bank is open."
      patchword similar minilm bank sentences.txt --layer 3 --out figures
      patchword similar zoo:elmo-mini bank "The river bank." "A rich bank."
    """
    from patchword.core.files import make_folder
    from patchword.recipes.text.inference.input import Columns, read_texts
    from patchword.recipes.text.inference.opening import open_embedder
    from patchword.recipes.text.inference.similarity import similar

    sentences = read_texts(inputs or (), Columns(text))
    if out is not None:
        make_folder(out)
    fetch_model(model, download)
    found = similar(open_embedder(model, device), word, sentences, layers or (-1,))
    if as_json:
        typer.echo(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        print_similarity(console(50 + 6 * len(found.uses)), found)
    if found.left_out:
        typer.echo(f"sentences skipped because the word was not found: {found.left_out:,}", err=True)
    if found.unread:
        typer.echo(
            f"only the first {len(found.uses)} uses are compared; sentences not read: {found.unread:,}", err=True
        )
    if out is not None:
        from patchword.reports.attention.similarity import write_similarity

        for path in write_similarity(found, out):
            typer.echo(path, err=as_json)


def print_similarity(out: "Console", found: "Similarity") -> None:
    """Print one table per layer."""
    from rich.table import Table
    from rich.text import Text

    from patchword.reports.attention.similarity import title

    for layer, cosines in found.layers.items():
        table = Table(box=None, title=title(layer), title_justify="left", title_style="bold", pad_edge=False)
        table.add_column("")
        table.add_column("", no_wrap=True)
        for number in range(1, len(found.uses) + 1):
            table.add_column(str(number), justify="right")
        for number, (use, row) in enumerate(zip(found.uses, cosines.tolist(), strict=True), 1):
            table.add_row(str(number), Text(use.marked(20)), *(f"{value:.2f}" for value in row))
        out.print(table)
        out.print()
