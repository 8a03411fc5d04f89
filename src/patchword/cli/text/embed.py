"""embed: texts as vectors."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from patchword.cli.common import Device, Precision, console
from patchword.cli.text.answers import progress, tell_counts

if TYPE_CHECKING:
    from patchword.recipes.text.inference.embedding import Embedded, Manner
    from patchword.recipes.text.inference.input import Asked
    from patchword.recipes.text.inference.reader import Reader

_POOLS = {"mean": "the mean of all tokens", "first": "[CLS]", "pooler": "BERT's pooler", "none": "every token"}


def embed(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run, or a model's folder; sentence-transformers' too.")
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="One text a line, a table with --text, - for stdin; or texts."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="In .npy, .csv, .jsonl or .safetensors.")
    ] = None,
    layer: Annotated[
        int | None, typer.Option("--layer", help="0 is what enters the first block; -1, the last, is the default.")
    ] = None,
    pool: Annotated[
        Literal["mean", "first", "pooler", "none"] | None,
        typer.Option("--pool", help="How tokens become one vector; none keeps a vector for each token."),
    ] = None,
    normalize: Annotated[
        bool | None, typer.Option("--normalize/--no-normalize", help="Vectors of length 1, or as they are.")
    ] = None,
    length: Annotated[
        int | None, typer.Option("--length", help="Tokens read of a text, special ones included.")
    ] = None,
    text: Annotated[str, typer.Option("--text", metavar="COLUMN", help="The column of a table.")] = "text",
    device: Device = "auto",
    precision: Precision = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines for other programs.")] = False,
) -> None:
    """Turn each text into a vector, to search, cluster or compare them.

    What is not said is as the folder has it: a sentence-transformers folder knows its pooling, its length and whether
    vectors get length 1; of other models it is the mean of the last layer, as it is.

    Examples:

      patchword embed minilm questions.txt --out vectors.npy
      patchword embed runs/bert new.csv --text review --layer 4 --out v.npy
    """
    from patchword.core.errors import UserError
    from patchword.recipes.text.inference.embedding import embed, manner_of
    from patchword.recipes.text.inference.input import Columns, read_texts
    from patchword.recipes.text.inference.reader import open_reader
    from patchword.recipes.vectors.files import check_kind, write_vectors

    if out is None and not as_json:
        raise UserError("where should the vectors go?", expected="--out FILE, or --json")
    if out is not None:
        check_kind(out, per_token=pool == "none")
    asked = read_texts(inputs or (), Columns(text))
    reader = open_reader(model, device, precision)
    manner = manner_of(reader, layer, pool, normalize, length)
    with progress(len(asked)) as bar:
        parts = embed(reader, [one.text for one in asked], manner, bar)
        if as_json:
            parts = _printed(asked, parts)
        shape = write_vectors(out, asked, parts) if out is not None else tuple(len(part) for part in parts)
    tell_counts(reader, manner.length)
    if out is not None and not as_json:
        size = " x ".join(f"{side:,}" for side in shape)
        console().print(f"{size} in {out}: {_told(reader, manner)}", highlight=False, markup=False)


def _printed(asked: "Sequence[Asked]", parts: "Iterator[Embedded]") -> "Iterator[Embedded]":
    """Printed on their way to the file."""
    from patchword.recipes.vectors.files import dealt, records

    for texts, part in dealt(asked, parts):
        for record in records(texts, part):
            typer.echo(json.dumps(record, ensure_ascii=False))
        yield part


def _told(reader: "Reader", manner: "Manner") -> str:
    scaled = ", length 1" if manner.normalize else ""
    return f"{_POOLS[manner.pool]}, layer {manner.layer} of {reader.depth}{scaled}, {manner.length} tokens at most"
