"""embed: turns texts into vectors."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from patchword.cli.common import Device, Download, Precision, console, fetch_model
from patchword.cli.completion import run_names
from patchword.cli.text.answers import progress, report_truncation
from patchword.cli.text.sharded import ShardOptions, ShardRows, run_in_shards

if TYPE_CHECKING:
    from patchword.recipes.text.inference.embedder import TextEmbedder
    from patchword.recipes.text.inference.embedding import Embedded, EmbeddingOptions
    from patchword.recipes.text.inference.input import TextInput

_POOLS = {
    "mean": "mean of all {}s",
    "first": "[CLS]",
    "pooler": "BERT's pooler",
    "none": "one vector per {}",
}


def embed(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A run, a model folder (also of sentence-transformers), zoo:NAME, or hf:OWNER/REPO.",
            autocompletion=run_names,
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="A file with one text per line, a table (see --text), texts, or - for stdin; with shards also a "
            "Parquet or Arrow file, or a folder of images.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Output file: .npy, .csv, .jsonl or .safetensors; in shards also .parquet, .arrow.",
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option("--layer", help="Which layer: 0 is the input of the first block, -1 (default) the last."),
    ] = None,
    pool: Annotated[
        Literal["mean", "first", "pooler", "none"] | None,
        typer.Option("--pool", help="How token vectors become one vector per text; none keeps one per token."),
    ] = None,
    normalize: Annotated[
        bool | None, typer.Option("--normalize/--no-normalize", help="Scale vectors to length 1, or keep them.")
    ] = None,
    length: Annotated[
        int | None,
        typer.Option("--length", help="Maximum number of tokens per text, special tokens included (ELMo: words)."),
    ] = None,
    text: Annotated[str, typer.Option("--text", metavar="COLUMN", help="The table column with the texts.")] = "text",
    shard: ShardRows = None,
    on_broken: Annotated[
        Literal["skip", "stop"] | None,
        typer.Option(
            "--on-broken",
            help="With shards, of rows that cannot be read: skip (the default), which gives these an error instead of "
            "a vector, or stop.",
        ),
    ] = None,
    device: Device = "auto",
    download: Download = False,
    precision: Precision = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON record per line.")] = False,
) -> None:
    """Turn each text into a vector, for search, clustering or comparison.

    Options that are not given take the folder's settings: a sentence-transformers folder defines pooling, length and
    normalization. For other models the default is the mean of the last layer, not normalized. An ELMo has a vector per
    word; its layer 0 is the character embedding, and it has only the pools mean and none.

    Examples:

      patchword embed minilm questions.txt --out vectors.npy
      patchword embed runs/bert new.csv --text review --layer 4 --out v.npy
      patchword embed zoo:elmo-mini sentences.txt --layer 1 --out v.npy
      patchword embed minilm millions.parquet --out vectors.parquet
      patchword embed zoo:digits-vit photos --out vectors.parquet
    """
    from patchword.core.errors import UserError
    from patchword.pipelines.bulk.work import EmbedWork
    from patchword.recipes.text.inference.input import Columns, read_texts
    from patchword.recipes.text.inference.opening import open_embedder
    from patchword.recipes.vectors.files import check_kind, write_vectors

    if out is None and not as_json:
        raise UserError("no output was chosen", expected="--out FILE, or --json")
    sharded = ShardOptions(shard, on_broken)
    if sharded.are_needed(inputs or (), out):
        if pool == "none" or as_json or out is None:
            raise UserError(
                "shards hold one vector per row, in a file", expected="--out FILE, and neither --json nor --pool none"
            )
        fetch_model(model, download)
        work = EmbedWork(model, text, layer, pool, normalize, length, device, precision)
        run_in_shards(work, inputs or (), out, sharded)
        return
    sharded.refuse_alone()
    if out is not None:
        check_kind(out, per_token=pool == "none")
    texts = read_texts(inputs or (), Columns(text))
    fetch_model(model, download)
    embedder = open_embedder(model, device, precision)
    options = embedder.options(layer, pool, normalize, length)
    with progress(len(texts)) as bar:
        parts = embedder.embed([one.text for one in texts], options, bar)
        if as_json:
            parts = _printed(texts, parts)
        shape = write_vectors(out, texts, parts) if out is not None else tuple(len(part) for part in parts)
    report_truncation(embedder.counts, options.length, embedder.unit)
    if out is not None and not as_json:
        size = " x ".join(f"{side:,}" for side in shape)
        console().print(f"{size} in {out}: {_description(embedder, options)}", highlight=False, markup=False)


def _printed(texts: "Sequence[TextInput]", parts: "Iterator[Embedded]") -> "Iterator[Embedded]":
    """Print the vectors while they pass through to the file."""
    from patchword.recipes.vectors.files import dealt, records

    for some, part in dealt(texts, parts):
        for record in records(some, part):
            typer.echo(json.dumps(record, ensure_ascii=False))
        yield part


def _description(embedder: "TextEmbedder", options: "EmbeddingOptions") -> str:
    pooled = _POOLS[options.pool].format(embedder.unit)
    scaled = ", length 1" if options.normalize else ""
    most = f", at most {options.length} {embedder.unit}s" if options.length else ""
    return f"{pooled}, layer {options.layer} of {embedder.depth}{scaled}{most}"
