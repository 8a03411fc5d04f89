"""bench: compares the speed of a model with the same model of other libraries."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from patchword.benchmarking.images import Setting, bench_images, peers_of
from patchword.benchmarking.result import Result, write_results
from patchword.benchmarking.text_inputs import natural_lengths
from patchword.benchmarking.texts import bench_inference, bench_masked
from patchword.core.card import ConfigValue
from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.recipes.schema.fields import check_device
from patchword.training.console import run_console

_BATCH = {"cpu": 8, "train": 128, "infer": 256}
Log = Callable[[str], None]


def bench(
    model: str,
    *,
    train: bool = False,
    length: int | None = None,
    batch_size: int | None = None,
    texts: int | None = None,
    timm: str | Path | None = None,
    authors: str = "",
    compile: bool | None = None,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    device: str = "auto",
    threads: int | None = None,
    seconds: float = 5.0,
    out: str | Path | None = None,
    quiet: bool = False,
    **fields: ConfigValue,
) -> Result:
    """Compare the speed of a model with the same model of other libraries, with the same inputs and weights.

    First it checks that their outputs agree.

    Args:
        model: a model name, or the name of a family, e.g. "bert".
        train: time training steps instead of inference.
        length: tokens per text; by default, lengths vary as in Wikipedia.
        batch_size: by default 8 on a CPU, 256 on a GPU, or 128 on a GPU with `train`.
        texts: number of different texts; by default 8 batches.
        timm: also compare with timm, from its source in this folder.
        authors: also compare with the authors' code, as "FILE:NAME" of the function.
        compile: compile all candidates; by default on a GPU.
        precision: "auto" is bfloat16 on a GPU with bfloat16 units, else float32.
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1" or "mps".
        threads: CPU threads, the same for every library.
        seconds: measuring time per candidate.
        out: file to which the result is written as JSON.
        quiet: print no progress.
        fields: fields of the model's config to change.

    >>> patchword.bench("bert", length=128).ratios
    """
    name, place = bench_name(model), pick_device(check_device(device))
    size = batch_size or _BATCH["cpu" if place.type == "cpu" else "train" if train else "infer"]
    fast = place.type == "cuda" if compile is None else compile
    setting = Setting(place, pick_precision(precision, place), seconds, fast, size, train)
    log = _ignore if quiet else _to_stderr()
    with _threads(threads):
        if REGISTRY.reads_images(name):
            result = _images(name, setting, None if timm is None else Path(timm), authors, log, fields)
        else:
            result = _texts(name, setting, length, texts, log, fields)
        if out is not None:
            write_results(Path(out), [result])
    return result


def bench_name(model: str) -> str:
    """Return the name of the benchmarked model: of a family, the base size."""
    name = model if model in REGISTRY.names() or f"{model}-base" not in REGISTRY.names() else f"{model}-base"
    REGISTRY.find(name)  # an unknown name is an error that lists the known ones
    return name


@contextmanager
def _threads(threads: int | None) -> Iterator[None]:
    """Set the number of CPU threads of torch inside the `with` block."""
    before = torch.get_num_threads()
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        yield
    finally:
        torch.set_num_threads(before)


def _images(
    name: str, setting: Setting, timm: Path | None, authors: str, log: Log, fields: Mapping[str, Any]
) -> Result:
    def peers(ours: Any) -> dict[str, nn.Module]:
        try:
            return peers_of(ours, timm, authors)
        except UserError:
            if timm is None and not authors:
                raise
            return peers_of(ours, timm, authors, transformers=False)  # transformers does not have every family

    return bench_images(name, setting, peers, log, **fields)


def _texts(
    name: str, setting: Setting, length: int | None, texts: int | None, log: Log, fields: Mapping[str, Any]
) -> Result:
    lengths = _lengths(texts or 8 * setting.batch, length, fields.get("max_length", 512))
    run = bench_masked if setting.train else bench_inference
    return run(name, setting, lengths, log, **fields)


def _lengths(texts: int, length: int | None, longest: int) -> Tensor:
    return natural_lengths(texts, longest) if length is None else torch.full((texts,), length)


def _to_stderr() -> Log:
    log = run_console(stderr=True, soft_wrap=True)
    return lambda text: log.print(text, style="dim", highlight=False, markup=False)


def _ignore(text: str) -> None:
    """Print nothing."""
