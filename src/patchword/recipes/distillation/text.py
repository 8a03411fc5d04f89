"""Distillation and quantization for text models, checked before anything is written."""

from collections.abc import Callable

import torch
from rich.console import Console
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers.quantize import is_quantised, quantise
from patchword.layers.text.model import TextModel
from patchword.objectives.distillation.answers import (
    HardTargets,
    SameNumbers,
    SoftLabels,
    SoftTargets,
    of_spans,
    of_tags,
    one_each,
)
from patchword.objectives.distillation.distillation import Lesson, Weighted
from patchword.objectives.distillation.initialization import chosen_layers, copy_layers
from patchword.objectives.distillation.layers import (
    SameAttention,
    SameDirection,
    SameFeatures,
    SameScores,
    SameStates,
    check_pairs,
    even_layers,
)
from patchword.recipes.distillation.fields import Teacher
from patchword.recipes.distillation.task import TaughtTexts, check_compile, ready, with_map
from patchword.recipes.model_choice import has_weights
from patchword.recipes.pretraining.task import PretrainingTask
from patchword.recipes.text.model import as_text
from patchword.recipes.text.task import TextTask
from patchword.weights import load
from patchword.weights.local_path import local_path


def compressed(task: TextTask | PretrainingTask, console: Console) -> TextTask | PretrainingTask | TaughtTexts:
    """Return the task with its teacher and with quantization, if the recipe asks for them."""
    fields = task.recipe.teacher
    teacher = open_teacher(task, fields) if fields.name else None
    if teacher is not None and fields.begin == "layers":
        begin(task, teacher, console)
    if isinstance(task, TextTask) and task.recipe.quantise:
        _quantised(task)
    if teacher is None:
        return task
    torch.manual_seed(task.recipe.seed)
    lessons = lessons_of(task, teacher, fields)
    check_compile(task.recipe.compile, lessons)
    console.print(f"distilling from {fields.name} ({teacher.card.model})", highlight=False, markup=False)
    return TaughtTexts(task, lessons, teacher, fields)


def open_teacher(task: TextTask | PretrainingTask, fields: Teacher) -> TextModel:
    folder = local_path(fields.name)
    if not folder.is_dir():
        raise UserError("recipe field 'teacher'", expected="the folder of a run or of a model", got=fields.name)
    pretraining = isinstance(task, PretrainingTask)
    teacher = as_text(load(folder, head=task.model.card.config["head"]) if pretraining else load(folder), fields.name)
    if Tokenizer.read(folder).fingerprint() != task.tokenizer.fingerprint():
        raise UserError(
            f"{fields.name} has another tokenizer than the model",
            expected="one tokenizer for both",
            hint="tokenizer=...",
        )
    own, other = task.model.card, teacher.card
    answers = bool(fields.soft or fields.hard)
    if answers and (own.config["head"], own.labels) != (other.config["head"], other.labels):
        raise UserError(
            f"{fields.name} was trained on another task",
            expected=f"{own.config['head']} {list(own.labels)[:5]}",
            got=f"{other.config['head']} {list(other.labels)[:5]}",
            hint="train the teacher on the same task first, or distil only layers: teacher.soft=0",
        )
    return as_text(ready(teacher, task.device), fields.name)


def begin(task: TextTask | PretrainingTask, teacher: TextModel, console: Console) -> None:
    choice = task.recipe.model
    if has_weights(choice) and not choice.from_scratch:
        raise UserError(
            f"{choice.name} already has weights", expected="model=NAME", hint="or leave teacher.begin=layers out"
        )
    layers = chosen_layers(len(task.model.encoder.order), len(teacher.encoder.order))
    copy_layers(teacher, task.model, layers)
    text = ", ".join(str(layer + 1) for layer in layers)
    console.print(f"initial weights: layers {text} of the teacher", highlight=False, markup=False)


def lessons_of(task: TextTask | PretrainingTask, teacher: TextModel, fields: Teacher) -> tuple[Weighted, ...]:
    depths = len(task.model.encoder.order), len(teacher.encoder.order)
    layered = fields.states or fields.scores or fields.features or fields.attention
    layers = fields.layers or (even_layers(*depths) if layered else ())
    if layered:
        by_head = bool(fields.scores or fields.attention)
        heads = (model.card.config["heads"] if by_head else 1 for model in (task.model, teacher))
        own, other = ([count] * depth for count, depth in zip(heads, depths, strict=True))
        check_pairs(own, other, layers)
    widths = task.model.card.config["width"], teacher.card.config["width"]
    if (fields.direction or fields.features) and widths[0] != widths[1]:
        raise UserError(
            "directions and features are compared channel by channel",
            expected=f"a model of width {widths[1]}, the width of the teacher",
            got=widths[0],
            hint="use a learned map instead: teacher.states=1",
        )
    kinds: list[tuple[float, Callable[[], Lesson]]] = [
        (fields.soft, lambda: _soft(task, fields.temperature)),
        (fields.hard, lambda: _hard(task)),
        (fields.direction, SameDirection),
        (fields.states, lambda: SameStates(layers, _map(task.model, widths[1]))),
        (fields.scores, lambda: SameScores(layers)),
        (fields.features, lambda: SameFeatures(layers)),
        (fields.attention, lambda: SameAttention(layers)),
    ]
    found = tuple(Weighted(weight, make()) for weight, make in kinds if weight)
    if not found:
        raise UserError("all distillation losses have the weight 0", expected="a weight above 0, e.g. teacher.soft=1")
    return found


def _map(model: TextModel, width: int) -> Callable[[Tensor], Tensor]:
    return nn.Identity() if model.card.config["width"] == width else with_map(model, width)


_CHOICES = {"tags": of_tags, "span": of_spans}


def _soft(task: TextTask | PretrainingTask, temperature: float) -> Lesson:
    name = task.spec.name if isinstance(task, TextTask) else ""
    if name == "labels":
        return SoftLabels(temperature)
    return SameNumbers() if name == "number" else SoftTargets(temperature, _CHOICES.get(name, one_each))


def _hard(task: TextTask | PretrainingTask) -> Lesson:
    name = task.spec.name if isinstance(task, TextTask) else ""
    if name in ("labels", "number"):
        raise UserError("recipe field 'teacher.hard' has no effect here", hint="use the soft loss: teacher.soft=1")
    return HardTargets(_CHOICES.get(name, one_each))


def _quantised(task: TextTask) -> None:
    if task.recipe.activation_checkpointing is not False:
        raise UserError("quantise=true measures ranges in each forward pass", expected="activation_checkpointing=false")
    if not is_quantised(task.model):
        quantise(task.model, task.recipe.quantise_after)
