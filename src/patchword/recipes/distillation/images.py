"""Distillation for image classifiers: builds the task with a teacher, checked before anything is written."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from torch import Tensor

from patchword.core.device import pick_precision
from patchword.core.errors import UserError
from patchword.fusion.compile import compile
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.objectives.distillation.answers import Choices, HardTargets, SoftTargets, SoftTargetsByClass
from patchword.objectives.distillation.distillation import Distillation, Lesson, Weighted
from patchword.objectives.distillation.ensemble import ImageTeacherRun, TeachersOfImages
from patchword.objectives.distillation.images import (
    ON,
    Token,
    class_answer,
    has_distillation_token,
    image_recorder,
)
from patchword.recipes.dense.memory_format import store_channels_last
from patchword.recipes.distillation.fields import ImageTeacher
from patchword.recipes.distillation.task import TaughtTask, ready
from patchword.recipes.image.task import ImageTask
from patchword.recipes.schema.fields import listed
from patchword.training.step import Objective
from patchword.weights import load
from patchword.weights.local_path import local_path

_NAMELESS = re.compile(r"LABEL_\d+")  # other libraries' placeholder for a class without a name


@dataclass(frozen=True)
class TaughtImages(TaughtTask):
    """The class token is trained on the labels, as in DeiT; the teacher sees the same images as the student."""

    task: ImageTask
    teachers: tuple[Model, ...]
    own: float

    @property
    def all_teachers(self) -> Sequence[Model]:
        return self.teachers

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        student = image_recorder(self.model, forward)

        def labels(answer: Callable[[Any], Any]) -> Objective:
            return self.task.objective(lambda images: class_answer(answer(images)))

        return Distillation(labels, student, self._teachers(), self.lessons, own=self.own)

    def _teachers(self) -> TeachersOfImages:
        """The mean of the probabilities is taken at the temperature of the loss; the predicted class has none."""
        fields = self.task.recipe.teacher
        runs = [ImageTeacherRun(teacher.card, self._run(teacher)) for teacher in self.teachers]
        precision = pick_precision(fields.precision, self.device)
        temperature = 1.0 if fields.kind == "hard" else fields.temperature
        return TeachersOfImages(self.model.card, runs, self.device, precision, temperature)

    def _run(self, teacher: Model) -> Callable[[Tensor], Tensor]:
        """Compiled with the student, but without CUDA graphs: a teacher is large enough to keep a GPU busy."""
        return compile(teacher, cuda_graphs=False) if self.task.recipe.compile else fuse_on_gpu(teacher)


def taught(task: ImageTask, console: Console) -> ImageTask | TaughtImages:
    """Return the task with its teachers if the recipe names some."""
    fields = task.recipe.teacher
    if not fields.name:
        if fields != ImageTeacher():  # a message, not an error: one run of a study has no teacher
            console.print("there is no teacher, so the other teacher fields have no effect; set teacher=RUN")
        return task
    tokens = tokens_of(fields, task.model)
    check_idle(fields, tokens)
    names = listed(fields.name)
    teachers = tuple(ready(open_teacher(name, fields.model, task.model, console), task.device) for name in names)
    for teacher in teachers if task.device.type == "cuda" else ():
        store_channels_last(teacher)
    described = " and ".join(f"{name} ({teacher.card.model})" for name, teacher in zip(names, teachers, strict=True))
    several = ", the mean of their probabilities" if len(teachers) > 1 else ""
    console.print(f"distilling from {described}{several}", highlight=False, markup=False)
    return TaughtImages(task, lessons_of(fields, tokens), teachers, own=1 - fields.share)


def check_idle(fields: ImageTeacher, tokens: tuple[Token, ...]) -> None:
    """Raise an error for a setting without effect, or one that leaves a token without a loss."""
    if fields.kind != "hard" and fields.label_smoothing:
        raise UserError("recipe field 'teacher.label_smoothing' has no effect here", expected="teacher.kind=hard")
    if fields.share == 1 and "class" not in tokens:
        raise UserError(
            "the class token would have no loss: the weight of the labels is 0",
            expected="teacher.share below 1, or teacher.token=both",
        )


def tokens_of(fields: ImageTeacher, student: Model) -> tuple[Token, ...]:
    """Return the tokens that are trained on the teacher's output; every token of the student must have a loss."""
    has = has_distillation_token(student)
    match fields.token:
        case "auto":
            return ("distillation",) if has else ("class",)
        case "class" if has:
            raise UserError(
                f"the distillation token of {student.card.model} would have no loss",
                expected="teacher.token=distillation or both",
                hint="or a student without that token, e.g. model=deit-mini",
            )
        case "class":
            return ("class",)
        case _ if not has:
            raise UserError(
                f"{student.card.model} has no distillation token",
                expected="teacher.token=class",
                hint="or a student with that token, e.g. model=deit-mini-distilled",
            )
        case "both":
            return ("class", "distillation")
    return ("distillation",)


def lessons_of(fields: ImageTeacher, tokens: tuple[Token, ...]) -> tuple[Weighted, ...]:
    """Return one distillation loss per token, with equal weights that sum to `fields.share`."""
    kinds: dict[str, Callable[[Choices], Lesson]] = {
        "soft": lambda choices: SoftTargets(fields.temperature, choices),
        "soft-deit": lambda choices: SoftTargetsByClass(fields.temperature, choices),
        "hard": lambda choices: HardTargets(choices, fields.label_smoothing),
    }
    return tuple(Weighted(fields.share / len(tokens), kinds[fields.kind](ON[token])) for token in tokens)


def open_teacher(name: str, model: str, student: Model, console: Console) -> Model:
    """Load a teacher, which must have the student's classes. model: of a weight file that does not contain it."""
    if not local_path(name).exists():
        named = name in REGISTRY.names()
        raise UserError(
            "recipe field 'teacher'",
            expected="a run, the folder of a model or a file of weights",
            got=f"{name}, a model without weights" if named else name,
            hint=f"teacher=FILE teacher.model={name}" if named else "`patchword train` one first",
        )
    teacher = load(name, model or None)
    REGISTRY.require_images(teacher.card.model)
    check_classes(name, student, teacher, console)
    return teacher


def check_classes(name: str, student: Model, teacher: Model, console: Console) -> None:
    """Check that both have the same classes in the same order; without names, only their number is compared."""
    own, other = student.card.labels, teacher.card.labels
    named = bool(other) and not all(_NAMELESS.fullmatch(label) for label in other)
    counts = student.card.config["classes"], teacher.card.config["classes"]
    if counts[0] != counts[1] or (named and own != other):
        raise UserError(
            f"{name} has other classes than the model",
            expected=f"{counts[0]} classes: {_first_labels(own)}",
            got=f"{counts[1]}: {_first_labels(other)}" if other else counts[1],
            hint="train the teacher on the same data first",
        )
    if not named and own != other:
        console.print(f"{name} has no class names; they are assumed to be {_first_labels(own)}", highlight=False)


def _first_labels(labels: tuple[str, ...]) -> str:
    return ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "")
