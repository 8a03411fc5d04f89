"""The best weights of a run on its test set, which nothing has read before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from patchword.core.device import pick_device
from patchword.core.errors import UserError
from patchword.core.files import write_json
from patchword.data.image.batches import Batches
from patchword.data.image.images import Images
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers.model import Model
from patchword.layers.quantize import is_quantised
from patchword.objectives.distillation.images import token_accuracies
from patchword.objectives.metrics.classification import Scores, score
from patchword.recipes.elmo.evaluation import ElmoEvaluation, evaluate_elmo
from patchword.recipes.elmo.recipe import ElmoRecipe
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.image.task import EVALUATION_BATCH
from patchword.recipes.pretraining import task as pretraining_task
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.pretraining.task import PretrainingTask
from patchword.recipes.recipe import ModelChoice, Recipe
from patchword.recipes.run import Run
from patchword.recipes.text.data import read_parts
from patchword.recipes.text.model import as_text, form_of
from patchword.recipes.text.quantised_evaluation import Compression, compression
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.task import judge
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.sets import Judged, TextSet
from patchword.recipes.text.tasks.table_sets import ClassSet
from patchword.recipes.translation.evaluation import TranslationEvaluation, evaluate_translation
from patchword.recipes.translation.recipe import TranslationRecipe
from patchword.recipes.vectors.evaluation import VectorsEvaluation, evaluate_over_vectors
from patchword.recipes.vectors.recipe import OverVectorsRecipe


@dataclass(frozen=True)
class ImageEvaluation:
    """tokens: of a model with two tokens that answer, the accuracy of each by itself"""

    model: Model
    scores: Scores
    images: Images
    tokens: Mapping[str, float] = field(default_factory=dict)

    def lines(self) -> Sequence[str]:
        told = (
            f"Test Accuracy of the {name.replace('_', ' ')}: {100 * share:.2f}%" for name, share in self.tokens.items()
        )
        return [*self.scores.lines(), *told]

    def summary(self) -> dict[str, Any]:
        return {**self.scores.summary(), **self.tokens}


_MOST_LINES = 32


@dataclass(frozen=True)
class TextEvaluation:
    """part: of the data, "test", or "validation" where there is no test file. scores: of a task with classes."""

    model: Model
    tokenizer: Tokenizer
    texts: TextSet
    judged: Judged
    metric: str
    part: str
    scores: Scores | None
    compression: Compression | None = None  # of a model that was trained in 8 bits

    def lines(self) -> Sequence[str]:
        """The result in words."""
        name = self.part.capitalize()
        if self.scores is not None:
            told = [line.replace("Test", name, 1) for line in self.scores.lines()]
            if len(told) > _MOST_LINES:
                told = [*told[: _MOST_LINES - 2], f"... (all {len(told) - 2} classes are in the report)", told[-1]]
        else:
            told = [f"{name} Loss: {self.judged.loss:.4f}"]
        told += [f"{name} {measure}: {value:.4f}" for measure, value in self.judged.measures.items()]
        told += self.compression.lines() if self.compression else []
        if self.part == "validation":
            told.append("(the best epoch was chosen on these same texts; give test=FILE for others)")
        return told

    def summary(self) -> dict[str, Any]:
        told = self.scores.summary() if self.scores is not None else {"loss": self.judged.loss}
        small = {"compression": self.compression.summary()} if self.compression else {}
        return {**told, **self.judged.measures, "metric": self.metric, "part": self.part, **small}


@dataclass(frozen=True)
class PretrainingEvaluation:
    model: Model
    measures: dict[str, float]
    task: PretrainingTask

    def lines(self) -> Sequence[str]:
        return [f"Held-out {name.replace('_', ' ')}: {value:.4f}" for name, value in self.measures.items()]

    def summary(self) -> dict[str, Any]:
        return {**self.measures, "metric": "accuracy", "part": "held out"}


Evaluation = (
    ImageEvaluation
    | TextEvaluation
    | PretrainingEvaluation
    | TranslationEvaluation
    | VectorsEvaluation
    | ElmoEvaluation
)


def evaluate(run: Run, device: str = "auto") -> Evaluation:
    """The result is kept in evaluation.json."""
    found = evaluated(run, run.recipe(), device)
    write_json(run.folder / "evaluation.json", found.summary())
    return found


def evaluated(run: Run, recipe: Recipe, device: str = "auto") -> Evaluation:
    """The run's weights on the data of a recipe, its own or another."""
    match recipe:
        case ImageRecipe() if recipe == run.recipe():
            return _images(run, device)
        case ImageRecipe():
            raise UserError("a run of images is evaluated on its own test set", hint="leave the fields out")
        case TextRecipe():
            return _texts(run, recipe, device)
        case TranslationRecipe():
            return evaluate_translation(run, recipe, device)
        case PretrainingRecipe():
            return _pretraining(run, recipe, device)
        case OverVectorsRecipe():
            return evaluate_over_vectors(run, recipe, device)
        case ElmoRecipe():
            return evaluate_elmo(run, recipe, device)
    raise TypeError(f"no evaluation of a {type(recipe).__name__}")


def _images(run: Run, device: str) -> ImageEvaluation:
    target = pick_device(device)
    model = run.model().to(target)
    images = run.test_images(model.card)
    batches = Batches(images, EVALUATION_BATCH, model.card.normalization, target)
    fast = fuse_on_gpu(model)
    scores, tokens = score(fast, batches.whole(), model.card.labels), token_accuracies(fast, batches.whole())
    return ImageEvaluation(model, scores, images, tokens)


def _texts(run: Run, recipe: TextRecipe, device: str) -> TextEvaluation:
    target, goal = pick_device(device), task_spec_of(recipe)
    model = as_text(run.model().to(target), str(run.folder))
    tokenizer, labels = Tokenizer.read(run.folder), model.card.labels
    part = "test" if recipe.test and not recipe.glue else "validation"
    rows = goal.read("test") if part == "test" else read_parts(goal).validation
    goal.check(Path(recipe.test), rows, labels)
    texts = goal.texts(tokenizer, rows, labels, part)
    judged = judge(model, texts, form_of(recipe.rows, tokenizer, target))
    scores = texts.scores(judged) if isinstance(texts, ClassSet) else None
    metric = goal.metric(labels)
    on_cpu = form_of("false", tokenizer, torch.device("cpu"))
    small = compression(model, texts, metric, on_cpu, recipe.length) if is_quantised(model) else None
    return TextEvaluation(model, tokenizer, texts, judged, metric, part, scores, small)


def _pretraining(run: Run, recipe: PretrainingRecipe, device: str) -> PretrainingEvaluation:
    """The documents set aside, again: they are never trained on."""
    own = recipe.model_copy(update={"device": device, "tokenizer": str(run.folder)})
    own = own.model_copy(update={"model": ModelChoice(name=str(run.folder))})  # what it began from may be gone
    task = pretraining_task.gather(own, Console(quiet=True))
    model = as_text(run.model().to(task.device), str(run.folder))
    return PretrainingEvaluation(model, pretraining_task.judge(model, task.held), task)
