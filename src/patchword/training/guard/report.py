"""Finds the samples of a batch that give a non-finite loss or gradient, and writes them to files."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from patchword.core.files import whole_file, write_json
from patchword.training.guard.model_buffers import ModelBuffers
from patchword.training.step import Batch, PlainStep

SampleNames = Callable[[Any], list[str]]  # returns the name of each sample of a batch or micro-batch
MAX_TRIES = 512  # maximum number of gradients that the search computes
MAX_WRITTEN = 16  # samples whose tensors are written
MAX_NAMED = 3  # samples that a message names


class StepIndex(NamedTuple):
    """Which step of a run, counted from 0. batch: within the epoch; step: within the run."""

    epoch: int
    batch: int
    step: int


def nonfinite_samples(batch: Batch, plain: PlainStep, model: nn.Module) -> list[Batch]:
    """Return the smallest parts of the batch that give a non-finite gradient by themselves; the batch if none does.

    The search is binary: one sample of 1,024 is found with twenty gradients. Batch norms use their running statistics
    meanwhile, since a single sample has no variance, and a non-finite sample would spoil the others.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return [batch]  # the other processes do not take part in the search
    model_buffers = ModelBuffers(model)
    saved = model_buffers.saved()
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.training]
    for norm in norms:
        norm.eval()
    try:
        return _search(batch, plain)
    finally:
        plain.optimizer.zero_grad(set_to_none=True)
        model_buffers.restore(saved)
        for norm in norms:
            norm.train()


def _search(batch: Batch, plain: PlainStep) -> list[Batch]:
    """Test the largest parts first, so that MAX_TRIES gradients cover the whole batch, if not each sample."""
    waiting, found, tries = [("", batch)], list[tuple[str, Any]](), 0
    while waiting and tries < MAX_TRIES:
        path, part = waiting.pop(0)
        halves = list(zip("01", part.split(2), strict=False))
        bad = [(path + side, half) for side, half in halves if len(halves) > 1 and _is_nonfinite(half, plain)]
        tries += len(halves)
        (waiting if bad else found).extend(bad or [(path, part)])
    return [part for _, part in sorted(found + waiting, key=lambda one: one[0])]


def _is_nonfinite(part: Any, plain: PlainStep) -> bool:
    plain.optimizer.zero_grad(set_to_none=True)
    plain.gradient(part)
    gradients = [weight.grad for weight in plain.weights() if weight.grad is not None]
    return not bool(torch.nn.utils.get_total_norm(gradients, foreach=True).isfinite())


def write_report(
    folder: Path, index: StepIndex, what: str, batch: Batch, found: list[Batch], name: SampleNames | None
) -> tuple[Path, str]:
    """Write step-N.json (names of the samples) and step-N.safetensors (their tensors, as the model received them).

    Return the path of the JSON file, and the names of the samples for a message.
    """
    names = [sample for part in found for sample in names_of(part, name)]
    all_names = names_of(batch, name)
    path = folder / f"step-{index.step + 1}{_rank_suffix()}.json"
    tensors = {
        f"{number}.{key}": value for number, part in enumerate(found[:MAX_WRITTEN]) for key, value in tensors_of(part)
    }
    with whole_file(path.with_suffix(".safetensors")) as temporary:
        save_file(tensors, temporary)
    write_json(
        path,
        {
            "what": what,
            "epoch": index.epoch + 1,
            "batch": index.batch + 1,
            "step": index.step + 1,
            "alone": len(names) == len(found),  # True if each sample is non-finite by itself
            "rows": names,
            "batch_rows": all_names,
        },
    )
    return path, _summary(names, found, all_names)


def _summary(names: list[str], found: list[Any], all_names: list[str]) -> str:
    if len(found) > 1 and len(names) == len(all_names):
        return f"all {len(names)} samples of the batch"
    listed = ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")
    return listed if len(names) == len(found) else f"no single sample, only these together: {listed}"


def names_of(part: Any, name: SampleNames | None) -> list[str]:
    part = getattr(part, "own", part)  # of a batch that is split over processes, the samples of this process
    if name is not None:
        return name(part)
    samples = getattr(part, "samples", None)
    return [] if samples is None else [f"sample {number}" for number in samples.tolist()]


def tensors_of(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield every tensor of a batch, named by the path of its fields."""
    if isinstance(value, Tensor):
        yield name, value.detach().cpu().contiguous().clone()
    elif is_dataclass(value):
        for field in fields(value):
            yield from tensors_of(getattr(value, field.name), f"{name}.{field.name}".strip("."))
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        for key, inner in value._asdict().items():
            yield from tensors_of(inner, f"{name}.{key}".strip("."))


def _rank_suffix() -> str:
    """Distinguish the files of several processes."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return f"-process-{torch.distributed.get_rank()}"
    return ""
