"""bench: compares the speed of a model with the same model of other libraries."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchword.cli.common import Device, Json, Precision, Settings, console, fields_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from patchword.benchmarking.images import Setting
    from patchword.benchmarking.result import Result

_BATCH = {"cpu": 8, "train": 128, "infer": 256}


def bench(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model name, or the name of a family, e.g. bert.")],
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
    import torch

    from patchword.benchmarking.images import Setting
    from patchword.benchmarking.result import write_results
    from patchword.core.device import pick_device, pick_precision
    from patchword.models import REGISTRY

    name = model if model in REGISTRY.names() or f"{model}-base" not in REGISTRY.names() else f"{model}-base"
    REGISTRY.find(name)  # an unknown name is an error that lists the known ones
    place = pick_device(device)
    if threads is not None:
        torch.set_num_threads(threads)
    size = batch or _BATCH["cpu" if place.type == "cpu" else "train" if train else "infer"]
    fast = place.type == "cuda" if compiled is None else compiled
    setting = Setting(place, pick_precision(precision, place), seconds, fast, size, train)
    log = _teller(as_json)
    fields = fields_of(settings or ())
    if REGISTRY.reads_images(name):
        result = _images(name, setting, timm, authors, log, fields)
    else:
        result = _texts(name, setting, length, texts, log, fields)
    path = write_results(
        out or Path("benchmarks/results") / f"bench-{name}-{'train' if train else 'infer'}.json", [result]
    )
    if as_json:
        typer.echo(json.dumps(result.to_json(), indent=2))
        return
    print_result(result)
    console().print(f"written: {path}", highlight=False, markup=False)


def _images(
    name: str,
    setting: "Setting",
    timm: Path | None,
    authors: str,
    log: "Callable[[str], None]",
    fields: dict[str, Any],
) -> "Result":
    from patchword.benchmarking.images import bench_images, peers_of
    from patchword.core.errors import UserError

    def peers(ours: Any) -> "dict[str, nn.Module]":
        try:
            return peers_of(ours, timm, authors)
        except UserError:
            if timm is None and not authors:
                raise
            return peers_of(ours, timm, authors, transformers=False)  # transformers does not have every family

    return bench_images(name, setting, peers, log, **fields)


def _texts(
    name: str,
    setting: "Setting",
    length: int | None,
    texts: int | None,
    log: "Callable[[str], None]",
    fields: dict[str, Any],
) -> "Result":
    from patchword.benchmarking.texts import bench_inference, bench_masked

    lengths = _lengths(texts or 8 * setting.batch, length, fields.get("max_length", 512))
    run = bench_masked if setting.train else bench_inference
    return run(name, setting, lengths, log, **fields)


def _lengths(texts: int, length: int | None, longest: int) -> "Tensor":
    import torch

    from patchword.benchmarking.text_inputs import natural_lengths

    return natural_lengths(texts, longest) if length is None else torch.full((texts,), length)


def _teller(as_json: bool) -> "Callable[[str], None]":
    from rich.console import Console

    log = Console(stderr=True, soft_wrap=True)
    return lambda text: log.print(text, style="dim", highlight=False, markup=False)


def print_result(result: "Result") -> None:
    from rich.table import Table

    table = Table("", "rate", "our speed / its speed", "of the matmul rate", "memory", title=result.title)
    for line in result.lines():
        table.add_row(*line)
    out = console()
    out.print(table)
    for note in result.notes():
        out.print(note, highlight=False, markup=False)
