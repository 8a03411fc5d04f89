"""Fine-tuning on texts: from a recipe to what the loop needs."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from patchword.data.text.batches import Examples, Form, TextBatch, TextBatches
from patchword.data.text.tokenizer import Tokenizer
from patchword.layers.text import TextModel
from patchword.recipes.device import pick_device, pick_precision
from patchword.recipes.text_checks import check_parts, check_settings, doubts
from patchword.recipes.text_data import has_pairs, make_set, metric_of, read_parts
from patchword.recipes.text_model import check_length, form_of, open_text_model
from patchword.recipes.text_recipe import TextRecipe
from patchword.recipes.text_sets import Judged, Outputs, SentenceSet, SpanSet, TextSet
from patchword.training.loop import Validation
from patchword.training.step import Objective, autocast
from patchword.weights import save

EVALUATION_BATCH = 128
_HEADS = {"classes": "classes", "labels": "classes", "number": "classes", "tags": "tags", "span": "span"}
_UNITS = {"tags": "words", "span": "windows"}


@dataclass(frozen=True)
class TextTask:
    """What a recipe asks for, brought together and checked, before anything is written."""

    recipe: TextRecipe
    model: TextModel
    tokenizer: Tokenizer
    train: TextSet
    held: TextSet
    form: Form
    metric: str
    shapes_change: bool = True

    @property
    def device(self) -> torch.device:
        return self.form.device

    @property
    def unit(self) -> str:
        return _UNITS.get(self.recipe.task, "texts")

    def steps_per_epoch(self) -> int:
        return self._batches().steps_per_epoch()

    def data(self, epoch: int, first: int) -> Iterator[TextBatch]:
        return self._batches().epoch(epoch, self.recipe.seed, first)

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        return self.train.objective(forward, self.device)

    def validate(self) -> Validation:
        judged = judge(self.model, self.held, self.form, pick_precision(self.recipe.precision, self.device))
        others = {name: value for name, value in judged.measures.items() if name != self.metric}
        return Validation(judged.loss, judged.measures[self.metric], others)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)
        save(self.model, folder)

    def fingerprint(self) -> dict[str, Any]:
        told = fingerprint(self.train.examples)
        if isinstance(self.train, SpanSet):
            told["unanswered"] = any(question.impossible for question in self.train.windows.questions)
        return told

    def _batches(self) -> TextBatches:
        return TextBatches(self.train.examples, self.recipe.batch, self.form)


def gather(recipe: TextRecipe, console: Console) -> TextTask:
    device = pick_device(recipe.device)
    with console.status("reading the texts"):
        parts = read_parts(recipe)
        check_settings(recipe)
        check_parts(recipe, parts)
        metric = metric_of(recipe, parts.labels)
        torch.manual_seed(recipe.seed)
        model, tokenizer = open_text_model(recipe.model, recipe.tokenizer, **head_of(recipe, parts.labels))
        check_length(recipe.length, model)
        train = make_set(recipe, tokenizer, parts.train, parts.labels, Path(recipe.train).name)
        held = make_set(recipe, tokenizer, parts.validation, parts.labels, "validation")
    model.card = replace(model.card, labels=parts.labels)
    tell(train, recipe, console)
    form = form_of(recipe.rows, tokenizer, device)
    return TextTask(recipe, model.to(device), tokenizer, train, held, form, metric)


def head_of(recipe: TextRecipe, labels: tuple[str, ...]) -> dict[str, Any]:
    """The fields of the model that the recipe sets, its head above all."""
    classes = {"number": 1, "span": 0}.get(recipe.task, len(labels) or 1)
    dropout = recipe.model.overrides().get("attention_dropout", recipe.attention_dropout)
    return {"head": _HEADS[recipe.task], "classes": classes, "attention_dropout": dropout}


def tell(texts: TextSet, recipe: TextRecipe, console: Console) -> None:
    """What becomes of long texts and unknown words, and which classes there are, before any time is spent on them."""
    examples = texts.examples
    rows = int(examples.owner.max()) + 1
    told = f"{rows:,} training texts, {len(examples.ids.values) / len(examples):.0f} tokens each"
    if examples.shortened:
        told += f"; {examples.shortened:,} longer than {recipe.length} are cut off"
        told += "" if has_pairs(recipe) else " (stride=... reads them in windows)"
    if examples.windowed:
        told += f"; {examples.windowed:,} longer than {recipe.length} are read in windows"
    if examples.unknown > 0.001:
        told += f"; {examples.unknown:.1%} of the tokens are unknown"
    console.print(told, highlight=False)
    if isinstance(texts, SentenceSet):
        for line in doubts(texts):
            console.print(line, highlight=False, markup=False)


@torch.inference_mode()
def answered(model: TextModel, texts: TextSet, form: Form, precision: str = "float32") -> Outputs:
    """What the model, which must be in evaluation mode, answers to every text, in their order."""
    outputs: dict[int, torch.Tensor] = {}
    for batch in TextBatches(texts.examples, EVALUATION_BATCH, form).whole():
        with autocast(precision, form.device):
            answer = model(batch.text)
        outputs.update(zip(batch.samples.tolist(), texts.output(batch, answer), strict=True))
    return [outputs[number] for number in range(len(outputs))]


def judge(model: TextModel, texts: TextSet, form: Form, precision: str = "float32") -> Judged:
    return texts.judge(answered(model, texts, form, precision))


def fingerprint(examples: Examples) -> dict[str, Any]:
    digest = hashlib.sha256(examples.ids.values.numpy().tobytes())
    for truth in (examples.labels, None if examples.targets is None else examples.targets.values):
        if truth is not None:
            digest.update(truth.numpy().tobytes())
    return {"name": examples.name, "samples": len(examples), "fingerprint": digest.hexdigest()}
