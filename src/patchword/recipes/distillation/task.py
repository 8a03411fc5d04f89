"""A task with a teacher, which adds distillation losses to the objective."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import nn

from patchword.core.device import pick_precision
from patchword.core.errors import UserError
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.text.batching.batches import TextBatch, TextBatches
from patchword.layers.model import Model
from patchword.layers.text.model import TextModel
from patchword.objectives.distillation.distillation import (
    Distillation,
    Weighted,
    frozen,
    output_recorder,
    reads,
    text_recorder,
)
from patchword.recipes.distillation.fields import Teacher
from patchword.recipes.pretraining.task import PretrainingTask
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.task import Task
from patchword.recipes.text.task import EVALUATION_BATCH, TextTask
from patchword.training.loop import Validation
from patchword.training.step import Batch, Objective, autocast

MAP = "lesson"  # name of the linear map in the trained model; saved models do not have it
_HELD = 512  # pretraining examples on which the distillation losses are scored


@dataclass(frozen=True)
class TaughtTask(ABC):
    """A task of images or texts with a teacher: everything except the objective is that of the wrapped task."""

    task: Task
    lessons: tuple[Weighted, ...]

    @property
    def recipe(self) -> Recipe:
        return self.task.recipe

    @property
    def model(self) -> Model:
        return cast(Model, self.task.model)

    @property
    def device(self) -> torch.device:
        return self.task.device

    @property
    @abstractmethod
    def all_teachers(self) -> Sequence[Model]:
        """The models that the student learns from."""

    @property
    def unit(self) -> str:
        return self.task.unit

    @property
    def metric(self) -> str:
        return self.task.metric

    @property
    def shapes_change(self) -> bool:
        return self.task.shapes_change

    def steps_per_epoch(self) -> int:
        return self.task.steps_per_epoch()

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[Batch]:
        return self.task.data(epoch, first, group)

    @abstractmethod
    def objective(self, forward: Callable[[Any], Any]) -> Objective: ...

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        return self.task.validate(group)

    def save(self, folder: Path) -> None:
        self.task.save(folder)

    def samples(self) -> dict[str, int]:
        return self.task.samples()

    def with_batch_size(self, size: int) -> Self:
        return replace(self, task=self.task.with_batch_size(size))

    def fingerprint(self) -> dict[str, Any]:
        return self.task.fingerprint()


@dataclass(frozen=True)
class TaughtTexts(TaughtTask):
    """A text task with a teacher. Without a loss on the output, the distance of the layers selects the best epoch."""

    task: TextTask | PretrainingTask
    teacher: TextModel
    fields: Teacher

    @property
    def all_teachers(self) -> Sequence[Model]:
        return (self.teacher,)

    @property
    def model(self) -> TextModel:
        return self.task.model

    @property
    def metric(self) -> str:
        return self.task.metric if self._answers() else "closeness"

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        parts = reads(self.lessons)
        student = output_recorder(forward) if parts <= {"answer"} else text_recorder(self.model, parts)
        taught = text_recorder(self.teacher, parts)
        return Distillation(self.task.objective, student, taught, self.lessons, self.fields.own)

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        """If only layers are distilled, the head is untrained, so the score is the closeness of the layers."""
        own = self.task.validate(group)
        if self._answers():
            return own
        loss = self._distance()
        return Validation(loss, -loss, {**own.measures, self.task.metric: own.score}, own.confusion)

    def save(self, folder: Path) -> None:
        with without_map(self.model):
            self.task.save(folder)

    def _answers(self) -> bool:
        return bool(self.fields.own or self.fields.soft or self.fields.hard)

    @torch.no_grad()
    def _distance(self) -> float:
        objective, precision = self.objective(self.model), pick_precision(self.task.recipe.precision, self.device)
        total = weight = 0.0
        for batch in _held(self.task):
            with autocast(precision, self.device):
                total += float(objective(batch, batch).loss) * batch.weight
            weight += batch.weight
        return total / weight


def _held(task: TextTask | PretrainingTask) -> Iterator[TextBatch]:
    if isinstance(task, TextTask):
        yield from TextBatches(task.held.examples, EVALUATION_BATCH, task.form).whole()
    else:
        examples = task.held.examples(0)
        for index in torch.arange(min(len(examples), _HELD)).split(EVALUATION_BATCH):
            yield examples.batch(index)


def with_map(model: TextModel, width: int) -> nn.Linear:
    """Add a linear map from the model's width to the teacher's; it is trained and saved in checkpoints."""
    found = nn.Linear(model.card.config["width"], width).to(next(model.parameters()).device)
    model.add_module(MAP, found)
    return found


@contextmanager
def without_map(model: TextModel) -> Iterator[None]:
    """Remove the linear map inside the context, so that the model is saved without it."""
    kept = model._modules.pop(MAP, None)
    try:
        yield
    finally:
        if kept is not None:
            model.add_module(MAP, kept)


def check_compile(asked: bool, lessons: tuple[Weighted, ...]) -> None:
    if asked and not reads(lessons) <= {"answer"}:
        raise UserError(
            "compile=true hides the layers of the model",
            expected="losses on the output only: teacher.soft or teacher.hard",
            hint="leave compile out to distil states or attention",
        )


def ready(teacher: Model, device: torch.device) -> Model:
    """Return the teacher frozen and on the device; its weights were checked to be finite when they were loaded."""
    return cast(Model, frozen(teacher.to(device)))
