"""bench: compares the speed of a model with the same model of other libraries."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Device, Fields, Json, Precision, Settings, console, fields_of, settings_of
from patchword.cli.completion import benchmark_names

if TYPE_CHECKING:
    from patchword.benchmarking.result import Result


def bench(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A model name, or the name of a family, e.g. bert.", autocompletion=benchmark_names
        ),
    ],
    fields: Fields = None,
    train: Annotated[bool, typer.Option("--train/--infer", help="Time training steps, or inference.")] = False,
    length: Annotated[
        int | None, typer.Option("--length", min=8, help="Tokens per text; by default, lengths vary as in Wikipedia.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch-size", min=1, help="Default: 8 on a CPU; on a GPU 256, or 128 with --train.")
    ] = None,
    texts: Annotated[
        int | None, typer.Option("--texts", min=1, help="Number of different texts; default: 8 batches.")
    ] = None,
    timm: Annotated[
        Path | None,
        typer.Option("--timm", metavar="FOLDER", help="Also compare with timm, from its source in this folder."),
    ] = None,
    authors: Annotated[
        str,
        typer.Option("--authors", metavar="FILE:NAME", help="Also compare with the authors' code: file and function."),
    ] = "",
    compiled: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Compile all candidates; the default on a GPU.")
    ] = None,
    precision: Precision = "auto",
    device: Device = "auto",
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="CPU threads, the same for every library.")
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Measuring time per candidate.")] = 5.0,
    settings: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Output file of the result.",
            show_default="benchmarks/results/bench-MODEL.json",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare the speed of a model with the same model of other libraries, with the same inputs and weights.

    First it checks that their outputs agree. It prints images or real tokens per second, the ratio to each peer, the
    fraction of this machine's matmul rate, and the peak memory of a step.

    Examples:

      patchword bench bert --train --length 128
      patchword bench bert --infer
      patchword bench swin-tiny --infer --timm ~/pytorch-image-models
      patchword bench cswin-tiny --authors cswin.py:CSWin_64_12211_tiny_224
    """
    from patchword.api.bench import bench as run_bench
    from patchword.api.bench import bench_name

    path = out or Path("benchmarks/results") / f"bench-{bench_name(model)}-{'train' if train else 'infer'}.json"
    result = run_bench(
        model,
        train=train,
        length=length,
        batch_size=batch,
        texts=texts,
        timm=timm,
        authors=authors,
        compile=compiled,
        precision=precision,
        device=device,
        threads=threads,
        seconds=seconds,
        out=path,
        **fields_of(settings_of(settings, fields)),
    )
    if as_json:
        typer.echo(json.dumps(result.to_json(), indent=2))
        return
    print_result(result)
    console().print(f"written: {path}", highlight=False, markup=False)


def print_result(result: "Result") -> None:
    from rich.table import Table

    table = Table("", "rate", "our speed / its speed", "of the matmul rate", "memory", title=result.title)
    for line in result.lines():
        table.add_row(*line)
    out = console()
    out.print(table)
    for note in result.notes():
        out.print(note, highlight=False, markup=False)
