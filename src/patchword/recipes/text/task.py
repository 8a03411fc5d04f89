"""Builds the task of fine-tuning on texts from its recipe."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from rich.console import Console

from patchword.core.device import pick_device, pick_precision
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.faults import Fault
from patchword.data.sampling import BalancedSampler
from patchword.data.skipping import skipped_record
from patchword.data.text.batching.batches import BatchFormat, Examples, TextBatch, TextBatches
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers.text.model import TextModel
from patchword.recipes.notes import print_report
from patchword.recipes.results.calibration import LatestScores
from patchword.recipes.text.checks import check_settings, checked_parts, doubts
from patchword.recipes.text.inference.outputs import Outputs, packed_outputs
from patchword.recipes.text.model import batch_format, check_length, open_text_model
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.summary import print_model
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.sets import Judged, SpanSet, TextSet
from patchword.recipes.text.tasks.spec import Labels, TextTaskSpec
from patchword.recipes.text.tasks.table_sets import ClassSet, TableSet
from patchword.training.loop import Validation
from patchword.training.step import Objective, autocast
from patchword.weights import save

EVALUATION_BATCH = 128


@dataclass(frozen=True)
class TextTask:
    """The task of a text recipe, checked before anything is written."""

    spec: TextTaskSpec[Any]
    model: TextModel
    tokenizer: Tokenizer
    train: TextSet
    held: TextSet
    form: BatchFormat
    metric: str
    shapes_change: bool = True
    latest: LatestScores = field(default_factory=LatestScores)
    skipped: Sequence[Fault] = ()

    @property
    def recipe(self) -> TextRecipe:
        return self.spec.recipe

    @property
    def device(self) -> torch.device:
        return self.form.device

    @property
    def unit(self) -> str:
        return self.spec.unit

    def steps_per_epoch(self) -> int:
        return self._batches().steps_per_epoch()

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[TextBatch]:
        return self._batches().epoch(epoch, self.recipe.seed, first, group)

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        return self.train.objective(forward, self.device)

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        precision = pick_precision(self.recipe.precision, self.device)
        judged = judge(self.model, self.held, self.form, precision, group)
        others = {name: value for name, value in judged.measures.items() if name != self.metric}
        scores = self.latest.scores = self.held.scores(judged) if isinstance(self.held, ClassSet) else None
        return Validation(
            judged.loss, judged.measures[self.metric], others, scores.confusion_rows() if scores else None
        )

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)
        save(self.model, folder)
        self.latest.save(folder)

    def samples(self) -> dict[str, int]:
        return {"training": len(self.train.examples), "validation": len(self.held.examples)}

    def with_batch_size(self, size: int) -> Self:
        recipe = self.recipe.model_copy(update={"batch_size": size})
        return replace(self, spec=replace(self.spec, recipe=recipe))

    def fingerprint(self) -> dict[str, Any]:
        found = fingerprint(self.train.examples) | skipped_record(self.skipped)
        if isinstance(self.train, ClassSet):
            found["class_counts"] = self.train.counts()
        if isinstance(self.train, SpanSet):
            found["unanswered"] = any(question.impossible for question in self.train.windows.questions)
        return found

    def _batches(self) -> TextBatches:
        examples, sampler = self.train.examples, None
        if self.recipe.sampling == "balanced":
            assert examples.labels is not None, "checked by check_settings: only classes are drawn equally often"
            sampler = BalancedSampler(examples.labels)
        return TextBatches(examples, self.recipe.batch_size, self.form, sampler)


def build_task(recipe: TextRecipe, console: Console) -> TextTask:
    device, spec = pick_device(recipe.device), task_spec_of(recipe)
    with console.status("reading the texts"):
        check_settings(spec)
        parts, report = checked_parts(spec, recipe.skip_rule())
        metric = spec.metric(parts.labels)
        torch.manual_seed(recipe.seed)
        model, tokenizer = open_text_model(recipe.model, recipe.tokenizer, **head_of(spec, parts.labels))
        check_length(recipe.length, model)
        train = spec.texts(tokenizer, parts.train, parts.labels, Path(recipe.train).name)
        held = spec.texts(tokenizer, parts.validation, parts.labels, "validation")
    model.card = replace(model.card, labels=parts.labels)
    print_model(recipe, model, device, console)
    print_summary(train, spec, console, len(report.skipped))
    print_report(report, console)
    form = batch_format(recipe.packed, tokenizer, device)
    return TextTask(spec, model.to(device), tokenizer, train, held, form, metric, skipped=report.skipped)


def head_of(spec: TextTaskSpec[Any], labels: Labels) -> dict[str, Any]:
    """Return the fields of the model that the recipe sets, mainly its head."""
    dropout = spec.recipe.model.overrides().get("attention_dropout", spec.recipe.attention_dropout)
    return {"head": spec.head, "classes": spec.classes(labels), "attention_dropout": dropout}


def print_summary(texts: TextSet, spec: TextTaskSpec[Any], console: Console, skipped: int = 0) -> None:
    """Print the counts of truncated texts, unknown tokens, skipped rows and classes before training starts."""
    examples, length = texts.examples, spec.recipe.length
    rows = int(examples.owner.max()) + 1
    name = spec.row if rows == 1 else f"{spec.row}s"
    text = f"{rows:,} training {name}, {len(examples.ids.values) / len(examples):.0f} tokens each"
    if examples.shortened:
        text += f"; {examples.shortened:,} longer than {length} are truncated"
        text += "" if spec.paired else " (stride=... splits them into windows)"
    if examples.windowed:
        windows = len(examples) - rows + examples.windowed
        text += f"; {examples.windowed:,} longer than {length} are split into {windows:,} windows"
    if examples.unknown > 0.001:
        text += f"; {examples.unknown:.1%} of the tokens are unknown"
    if skipped:
        text += f"; {skipped:,} faulty rows of all files are skipped" if skipped > 1 else "; 1 faulty row is skipped"
    console.print(text, highlight=False)
    if isinstance(texts, TableSet):
        for line in doubts(texts, spec.recipe):
            console.print(line, highlight=False, markup=False)


def answered(
    model: TextModel, examples: Examples, form: BatchFormat, precision: str = "float32", group: WorkSharing = SINGLE
) -> Outputs:
    """Return the model's output for every text, in order. The model must be in evaluation mode."""
    fast = fuse_on_gpu(model)

    def ask(batch: TextBatch) -> torch.Tensor:
        with autocast(precision, form.device):
            answer: torch.Tensor = fast(batch.text)
        return answer

    return packed_outputs(ask, examples, form, group=group)


def judge(
    model: TextModel, texts: TextSet, form: BatchFormat, precision: str = "float32", group: WorkSharing = SINGLE
) -> Judged:
    return texts.judge(answered(model, texts.examples, form, precision, group))


def fingerprint(examples: Examples) -> dict[str, Any]:
    digest = hashlib.sha256(examples.ids.values.numpy().tobytes())
    for truth in (examples.labels, None if examples.targets is None else examples.targets.values):
        if truth is not None:
            digest.update(truth.numpy().tobytes())
    return {"name": examples.name, "samples": len(examples), "fingerprint": digest.hexdigest()}
