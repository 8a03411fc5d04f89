"""Which rows of a batch give no numbers, written down so that a person can look at them."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from patchword.core.files import whole_file, write_json
from patchword.training.guard.batch_statistics import Statistics
from patchword.training.step import PlainStep

Name = Callable[[Any], list[str]]  # of a batch or a piece: what each of its rows is called
TRIES = 512  # of pieces of a batch, at most
KEPT = 16  # rows of which the tensors are kept
TOLD = 3  # rows that a line names


class Place(NamedTuple):
    """Where in a run, all from 0 on. batch: of the epoch; step: of the run"""

    epoch: int
    batch: int
    step: int


def nonfinite_samples(batch: Any, plain: PlainStep, model: nn.Module) -> list[Any]:
    """The smallest pieces of the batch that give no numbers by themselves; the batch itself if none does.

    Halves are tried, and of each that is bad its halves: one row of 1,024 is found in twenty tries. Batch norms use
    their running statistics meanwhile, since a single row has no spread, and a bad row would spoil the others.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return [batch]  # the others do not take part
    statistics = Statistics(model)
    noted, norms = (
        statistics.noted(),
        [part for part in model.modules() if isinstance(part, _BatchNorm) and part.training],
    )
    for norm in norms:
        norm.eval()
    try:
        return _narrowed(batch, plain)
    finally:
        plain.optimizer.zero_grad(set_to_none=True)
        statistics.put(noted)
        for norm in norms:
            norm.train()


def _narrowed(batch: Any, plain: PlainStep) -> list[Any]:
    """The largest pieces first, so that after TRIES all of the batch was looked at, if not down to single rows."""
    waiting, found, tries = [("", batch)], list[tuple[str, Any]](), 0
    while waiting and tries < TRIES:
        path, piece = waiting.pop(0)
        halves = list(zip("01", piece.split(2), strict=False))
        bad = [(path + side, half) for side, half in halves if len(halves) > 1 and _is_bad(half, plain)]
        tries += len(halves)
        (waiting if bad else found).extend(bad or [(path, piece)])
    return [piece for _, piece in sorted(found + waiting, key=lambda one: one[0])]


def _is_bad(piece: Any, plain: PlainStep) -> bool:
    plain.optimizer.zero_grad(set_to_none=True)
    plain.gradient(piece)
    gradients = [weight.grad for weight in plain.weights() if weight.grad is not None]
    return not bool(torch.nn.utils.get_total_norm(gradients, foreach=True).isfinite())


def write_report(
    folder: Path, place: Place, what: str, batch: Any, found: list[Any], name: Name | None
) -> tuple[Path, str]:
    """step-N.json names the rows, step-N.safetensors holds them as the model got them; the file, and a line on it."""
    called = [row for piece in found for row in rows_of(piece, name)]
    everything = rows_of(batch, name)
    alone = len(called) == len(found)
    path = folder / f"step-{place.step + 1}{_process()}.json"
    tensors = {
        f"{number}.{key}": value for number, piece in enumerate(found[:KEPT]) for key, value in tensors_of(piece)
    }
    with whole_file(path.with_suffix(".safetensors")) as temporary:
        save_file(tensors, temporary)
    write_json(
        path,
        {
            "what": what,
            "epoch": place.epoch + 1,
            "batch": place.batch + 1,
            "step": place.step + 1,
            "alone": alone,  # whether each of the rows gives no number by itself
            "rows": called,
            "batch_rows": everything,
        },
    )
    return path, _told(called, found, everything)


def _told(called: list[str], found: list[Any], everything: list[str]) -> str:
    if len(found) > 1 and len(called) == len(everything):
        return f"all {len(called)} rows of the batch"
    told = ", ".join(called[:TOLD]) + (f" and {len(called) - TOLD} more" if len(called) > TOLD else "")
    return told if len(called) == len(found) else f"no single row, these together: {told}"


def rows_of(piece: Any, name: Name | None) -> list[str]:
    piece = getattr(piece, "own", piece)  # of a batch that several processes share, what this one has
    if name is not None:
        return name(piece)
    samples = getattr(piece, "samples", None)
    return [] if samples is None else [f"sample {number}" for number in samples.tolist()]


def tensors_of(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor in a batch, by the names of the fields it lies in."""
    if isinstance(value, Tensor):
        yield name, value.detach().cpu().contiguous().clone()
    elif is_dataclass(value):
        for field in fields(value):
            yield from tensors_of(getattr(value, field.name), f"{name}.{field.name}".strip("."))
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        for key, inner in value._asdict().items():
            yield from tensors_of(inner, f"{name}.{key}".strip("."))


def _process() -> str:
    """told apart where several processes write"""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return f"-process-{torch.distributed.get_rank()}"
    return ""
