"""Loads a run with a sample of its training data, to inspect the loss around its weights.

The loss is the plain one, so that runs can be compared: no augmentation, no label smoothing, no class weights, no
teacher. The samples are the first of a fixed shuffle of the training samples.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from patchword.analysis.sharpness.loss import SampleLoss
from patchword.core.device import pick_device
from patchword.core.errors import UserError
from patchword.data.image.batches import Batches
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.named_datasets import open_source
from patchword.data.randomness import order
from patchword.data.skipping import read_with
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers.model import Model
from patchword.layers.quantize import is_quantised
from patchword.objectives.classification import Classification
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.image.task import split
from patchword.recipes.run import Run
from patchword.recipes.run_folders.records import DATA, read_record
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.text.data import read_parts
from patchword.recipes.text.model import as_text, batch_format
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.task import fingerprint
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.table_sets import ClassSet
from patchword.training.step import Objective


@dataclass(frozen=True)
class SampleOptions:
    """Number and seed of the samples, and the batch size; a batch_size of 0 is the largest that fits into memory."""

    samples: int = 2048
    batch_size: int = 0
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise UserError("the samples to read", expected="1 or more", got=self.samples)
        if self.batch_size < 0:
            raise UserError("the batch size", expected="1 or more, or 0: as many as fit", got=self.batch_size)


@dataclass(frozen=True)
class Opened:
    """A run with the loss on its sample. sample: in words. loss_name: with unit. has_accuracy: false for regression."""

    run: Run
    name: str
    loss: SampleLoss
    sample: str
    loss_name: str = "cross-entropy (nats)"
    has_accuracy: bool = True


def open_run(run: Run, asked: SampleOptions) -> Opened:
    """Load the model of a run and a sample of its training data."""
    recipe = run.recipe()
    if recipe.kind not in _OPENERS:
        raise UserError(
            f"{run.folder} is a run of the kind {recipe.kind!r}",
            expected="a run on images, or on texts with a task (classes, labels, tags, spans, numbers)",
        )
    found = _OPENERS[recipe.kind](run, recipe, asked)
    if asked.batch_size:
        return found
    return replace(found, loss=fitting(found.loss))


def _images(run: Run, recipe: ImageRecipe, asked: SampleOptions) -> Opened:
    device = pick_device(asked.device)
    model = _plain(run.model().to(device), run)
    source, format = read_with(recipe.skip_rule(), open_source, recipe.data)[0], ImageFormat.of(model.card)
    read, _ = read_with(recipe.skip_rule(), source.read, "train", format)
    train, _ = split(source, read.with_classes(model.card.labels), recipe, format)
    _check_data(run, {"samples": len(train), "fingerprint": train.fingerprint()})
    chosen = order(asked.seed, 0, len(train))[: asked.samples].sort().values
    images = Batches(train.subset(chosen), 1, model.card.normalization, device).on_device()

    def batches(size: int) -> Iterable[Any]:
        return replace(images, size=size).whole()

    sample = f"{len(chosen):,} of {len(train):,} training images of {train.name}, seed {asked.seed}"
    loss = _loss(model, batches, Classification(model), len(chosen), len(chosen), asked)
    return Opened(run, run.folder.absolute().name, loss, sample)


def _texts(run: Run, recipe: TextRecipe, asked: SampleOptions) -> Opened:
    device, spec = pick_device(asked.device), task_spec_of(recipe)
    model = _plain(as_text(run.model().to(device), str(run.folder)), run)
    tokenizer, parts = Tokenizer.read(run.folder), read_parts(spec)
    texts = spec.texts(tokenizer, parts.train, model.card.labels, Path(recipe.train).name)
    _check_data(run, fingerprint(texts.examples))
    if isinstance(texts, ClassSet):
        texts = replace(texts, weights=None, smoothing=0.0)
    examples, form = texts.examples, batch_format("false", tokenizer, device)
    chosen = order(asked.seed, 0, len(examples))[: asked.samples]
    chosen = chosen[examples.ids.lengths[chosen].argsort(descending=True, stable=True)]

    def batches(size: int) -> Iterable[Any]:
        return (examples.batch(index, form).ready() for index in chosen.split(size))

    weight = sum(piece.weight for piece in batches(4096))
    of = spec.example if spec.example.endswith("s") else f"{spec.example}s"
    sample = f"{len(chosen):,} of {len(examples):,} training {of} of {examples.name}, seed {asked.seed}"
    loss = _loss(model, batches, texts.objective(model, device), weight, len(chosen), asked)
    return Opened(run, run.folder.absolute().name, loss, sample, spec.loss, recipe.task != "number")


# The recipe kinds whose loss can be inspected.
_OPENERS: Mapping[str, Callable[[Run, Any, SampleOptions], Opened]] = {"images": _images, "text": _texts}


def _loss(
    model: Model,
    batches: Callable[[int], Iterable[Any]],
    objective: Objective,
    weight: int,
    count: int,
    asked: SampleOptions,
) -> SampleLoss:
    """Build the loss over a sample. weight: the number of terms in the mean over the whole sample."""

    def contribution(piece: Any) -> tuple[Tensor, Tensor]:
        found = objective(piece, piece)
        return found.loss * (piece.weight / weight), found.right / weight

    return SampleLoss(model, batches, contribution, asked.batch_size or count, count)


def fitting(loss: SampleLoss) -> SampleLoss:
    """Choose the largest micro-batch whose second derivative fits into GPU memory; on a CPU, at most 128."""
    if loss.zeros().device.type != "cuda":
        return replace(loss, size=min(loss.size, 128))
    size = min(loss.size, 2048)
    while True:
        try:
            replace(loss, batches=partial(_first, loss), size=size).products(loss.zeros(2))
            return replace(loss, size=size)
        except torch.OutOfMemoryError:
            if size == 1:
                raise UserError("one sample is too large for this GPU's memory", hint="--device cpu") from None
        torch.cuda.empty_cache()
        size //= 2


def _first(loss: SampleLoss, size: int) -> Iterable[Any]:
    return islice(loss.batches(size), 1)


def _plain(model: Any, run: Run) -> Any:
    if is_quantised(model):
        raise UserError(
            f"{run.folder} was trained with quantise=true",
            expected="a run without quantization: rounding has no derivative",
        )
    return model.requires_grad_(True)


def _check_data(run: Run, now: dict[str, Any]) -> None:
    """Raise an error if the training data has changed since the run."""
    before = read_record(run.folder, DATA) or now
    if before.get("fingerprint", now["fingerprint"]) != now["fingerprint"]:
        raise UserError(
            f"the training samples of {run.folder} are no longer those it was trained on",
            expected=f"{before.get('samples')} samples as they were",
            got=f"{now['samples']} samples",
            hint="restore them, or train again",
        )


def weights_digest(run: Run) -> str:
    """Return the hash of the weight file, which tells whether a saved measure belongs to the current weights."""
    with (run.folder / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def same_data(recipes: Iterable[Recipe]) -> bool:
    """True if all recipes train on the same data set, so that their losses are comparable."""
    return len({getattr(recipe, "data", "") or getattr(recipe, "train", "") for recipe in recipes}) <= 1
