"""Builds the task of a tagger or a classifier over frozen vectors from its recipe."""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import torch
from rich.console import Console
from rich.progress import Progress

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.faults import SkipRule
from patchword.data.text.batching.batches import BatchFormat, TextBatch, TextBatches
from patchword.layers import FrozenVectorModel
from patchword.models import REGISTRY
from patchword.recipes.notes import print_report
from patchword.recipes.text.checks import checked_parts
from patchword.recipes.text.inference.outputs import outputs_of
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.sets import Judged, TagSet, TextSet
from patchword.recipes.vectors.recipe import OverVectorsRecipe
from patchword.recipes.vectors.sets import Cut, Read, all_words, read_words, text_set
from patchword.recipes.vectors.sources import Source, listed_sources
from patchword.recipes.vectors.sources_models import open_sources
from patchword.recipes.vectors.vector_cache import GIB, VectorCache, check_size, fill, size_of
from patchword.training.loop import Validation
from patchword.training.step import Objective, autocast
from patchword.weights import save

EVALUATION_BATCH = 128
_OF_SOURCES = ("sources", "head", "classes")  # fields of the model that follow from the vectors and the texts


@dataclass(frozen=True)
class OverVectorsTask:
    """The task of an over-vectors recipe, checked before anything is written."""

    recipe: OverVectorsRecipe
    model: FrozenVectorModel
    bank: VectorCache
    train: TextSet
    held: TextSet
    metric: str
    unit: str
    words: str  # a digest of those that are learned from
    shapes_change: bool = True

    @property
    def device(self) -> torch.device:
        return self.bank.device

    @property
    def form(self) -> BatchFormat:
        return BatchFormat(0, False, self.device)

    def steps_per_epoch(self) -> int:
        return self._batches().steps_per_epoch()

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[TextBatch]:
        return self._batches().epoch(epoch, self.recipe.seed, first, group)

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        return self.train.objective(lambda text: forward(self.bank(text)), self.device)

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        precision = pick_precision(self.recipe.precision, self.device)
        judged = judge(self.model, self.bank, self.held, precision, group)
        others = {name: value for name, value in judged.measures.items() if name != self.metric}
        return Validation(judged.loss, judged.measures[self.metric], others)

    def save(self, folder: Path) -> None:
        save(self.model, folder)

    def samples(self) -> dict[str, int]:
        return {"training": len(self.train.examples), "validation": len(self.held.examples)}

    def with_batch_size(self, size: int) -> Self:
        return replace(self, recipe=self.recipe.model_copy(update={"batch_size": size}))

    def fingerprint(self) -> dict[str, Any]:
        return {"name": self.train.examples.name, "samples": len(self.train.examples), "fingerprint": self.words}

    def _batches(self) -> TextBatches:
        return TextBatches(self.train.examples, self.recipe.batch_size, self.form)


def build_task(recipe: OverVectorsRecipe, console: Console) -> OverVectorsTask:
    device, spec = pick_device(recipe.device), task_spec_of(recipe.texts())
    listed_sources(recipe.vectors)
    check_choice(recipe)
    with console.status("reading the texts"):
        parts, report = checked_parts(spec, SkipRule())
        metric = spec.metric(parts.labels)
        train, held = (read_words(recipe, rows) for rows in (parts.train, parts.validation))
        sources = open_sources(recipe.vectors, device)
    print_summary(train, recipe, console)
    print_report(report, console)
    bank = bank_of(recipe, sources, all_words(train, held), device, console)
    torch.manual_seed(recipe.seed)
    shapes = tuple((source.layers, source.width) for source in sources)
    values = {"sources": shapes, "head": recipe.task, "classes": spec.classes(parts.labels)}
    model = cast(FrozenVectorModel, REGISTRY.create(recipe.model.name, **{**recipe.model.overrides(), **values}))
    model.card = replace(model.card, labels=parts.labels)
    model = model.to(device)
    model.embedding.fit_scale(bank.values[: train.count])
    sets = (
        text_set(spec, train, parts.labels, Path(recipe.train).name),
        text_set(spec, held, parts.labels, "validation", train.count),
    )
    return OverVectorsTask(recipe, model, bank, *sets, metric, spec.unit, digest(train, sets[0]))


def check_choice(recipe: OverVectorsRecipe) -> None:
    name = recipe.model.name
    if Path(name).exists() or REGISTRY.reads(name) != "vectors":
        raise UserError(
            f"{name!r} does not read vectors", expected="model=over-vectors", hint="choose the vectors with vectors=..."
        )
    for field in _OF_SOURCES:
        if field in recipe.model.overrides():
            raise UserError(f"model.{field} follows from the vectors and the texts", hint="leave it out")


def print_summary(read: Read, recipe: OverVectorsRecipe, console: Console) -> None:
    text = f"{len(read.words):,} training {'sentences' if recipe.task == 'tags' else 'texts'}, {read.count:,} words"
    text += f"; {read.shortened:,} longer than {recipe.length} words are truncated" if read.shortened else ""
    console.print(text, highlight=False)


_kept: dict[tuple[str, str, Cut], VectorCache] = {}  # of the last vectors: the seeds of a study share them


def bank_of(
    recipe: OverVectorsRecipe, sources: tuple[Source, ...], words: Cut, device: torch.device, console: Console
) -> VectorCache:
    """Return the cache of the vectors of these words."""
    count, key = sum(map(len, words)), (recipe.vectors, str(device), words)
    check_size(sources, count, recipe.memory)
    if key in _kept:
        return _kept[key]
    for old in [old for old in _kept if old[:2] != key[:2]]:
        del _kept[old]
    began = time.monotonic()
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("vectors of all words", total=count)
        found = fill(sources, words, device, lambda done: progress.advance(bar, done))
    size, seconds = size_of(sources, count) / GIB, time.monotonic() - began
    lines = [f"vectors of {count:,} words: {size:.2f} GiB, computed in {seconds:.1f} s"]
    lines += [source.describe() for source in sources if source.describe()]
    console.print("; ".join(lines), highlight=False, markup=False)
    _kept[key] = found
    return found


def judge(
    model: FrozenVectorModel, bank: VectorCache, texts: TextSet, precision: str = "float32", group: WorkSharing = SINGLE
) -> Judged:
    """Score a model, which must be in evaluation mode."""

    def ask(batch: TextBatch) -> torch.Tensor:
        with autocast(precision, bank.device):
            answer: torch.Tensor = model(bank(batch.text))
        return answer

    form = BatchFormat(0, False, bank.device)
    return texts.judge(outputs_of(ask, texts.examples, form, EVALUATION_BATCH, group=group))


def digest(read: Read, texts: TextSet) -> str:
    found = hashlib.sha256()
    for words in read.words:
        found.update("\0".join((*words, "\n")).encode("utf-8", "replace"))
    truth = (
        texts.examples.targets.values if isinstance(texts, TagSet) and texts.examples.targets else texts.examples.labels
    )
    assert truth is not None, "training texts have tags or labels"
    found.update(truth.numpy().tobytes())
    return found.hexdigest()
