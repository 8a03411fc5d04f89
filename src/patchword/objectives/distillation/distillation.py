"""Distillation (Hinton et al., 2015): a student is trained on the data and on a teacher's outputs for the same data.

`Distillation` wraps the objective that a student would have alone. The student runs once: the objective gets its
output, and the lessons compare everything that was recorded with the teacher's. The teacher is frozen.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from patchword.core.text import Text
from patchword.layers.attention.recording import Attended, follow_attention
from patchword.layers.text.model import TextModel
from patchword.objectives.classification import Outcome

Part = Literal["answer", "states", "attention"]


class Recorded(NamedTuple):
    """The recorded outputs of a model.

    answer: the output of the head. states: the input of the first block and the output of each block.
    attention: of each block, in order. there: (batch, tokens) mask of `states`, False for padding; None: no padding.
    queries: the same mask for the queries of attention, which are padded even if the texts are packed.
    """

    answer: Any
    states: Sequence[Tensor] = ()
    attention: Sequence[Attended] = ()
    there: Tensor | None = None
    queries: Tensor | None = None


Recorder = Callable[[Any], Recorded]


class Lesson(Protocol):
    """A distillation loss: the mean distance between student and teacher over a micro-batch."""

    @property
    def reads(self) -> Part: ...

    def __call__(self, student: Recorded, teacher: Recorded, piece: Any) -> Tensor: ...

    def fraction(self, piece: Any, batch: Any) -> float:
        """Return the weight of the micro-batch in the mean over its batch."""
        ...


@dataclass(frozen=True)
class ByExamples:
    """A lesson that is averaged like the objective's loss: over examples, masked words or tags."""

    def fraction(self, piece: Any, batch: Any) -> float:
        return float(piece.weight / batch.weight)


@dataclass(frozen=True)
class ByTokens:
    """A lesson that is averaged over the tokens of all texts. Images all have the same number of tokens."""

    def fraction(self, piece: Any, batch: Any) -> float:
        return float(piece.tokens / batch.tokens) if hasattr(batch, "tokens") else float(piece.weight / batch.weight)


@dataclass(frozen=True)
class Weighted:
    """A lesson and its weight."""

    weight: float
    lesson: Lesson


class Distillation:
    """The distillation loss: own * (the student's own loss) + the weighted sum of the lessons.

    objective: builds the student's own objective from the function that runs the student.
    student, teacher: run the model and record its outputs. The teacher runs without gradients; see `frozen`.
    """

    def __init__(
        self,
        objective: Callable[[Callable[[Any], Any]], Callable[[Any, Any], Any]],
        student: Recorder,
        teacher: Recorder,
        lessons: Iterable[Weighted],
        own: float = 1.0,
    ) -> None:
        self.student, self.teacher, self.lessons, self.own = student, teacher, tuple(lessons), own
        self.objective = objective(self._answer)
        self._inputs: Any = None
        self._seen: Recorded | None = None

    def _answer(self, inputs: Any) -> Any:
        if isinstance(inputs, Text):
            inputs = inputs._replace(targets=None)  # the logits are compared with the teacher's
        self._inputs, self._seen = inputs, self.student(inputs)
        return self._seen.answer

    def __call__(self, piece: Any, batch: Any) -> Outcome:
        outcome = self.objective(piece, batch)
        recorded, self._seen = self._seen, None  # freed as soon as possible
        assert recorded is not None, "the objective runs the student"
        with torch.no_grad():
            taught = self.teacher(self._inputs)
        loss = self.own * outcome.loss
        for weight, lesson in ((weighted.weight, weighted.lesson) for weighted in self.lessons):
            loss = loss + weight * lesson.fraction(piece, batch) * lesson(recorded, taught, piece)
        return Outcome(loss, outcome.right)


def reads(lessons: Iterable[Weighted]) -> frozenset[Part]:
    """Return which outputs must be recorded for these lessons."""
    return frozenset(weighted.lesson.reads for weighted in lessons)


def frozen(teacher: nn.Module) -> nn.Module:
    """Set the model to evaluation mode, turn off the gradients of its weights, and return it."""
    return teacher.eval().requires_grad_(False)


def output_recorder(model: Callable[[Any], Any]) -> Recorder:
    """Return a function that runs the model and records its output only; the model may be compiled."""
    return lambda inputs: Recorded(model(inputs))


def text_recorder(model: TextModel, parts: frozenset[Part]) -> Recorder:
    """Return a function that runs the model and records its output, all states and, if needed, all attention scores.

    Attention is then computed without fused kernels, because these do not return the scores.
    """
    if parts <= {"answer"}:
        return output_recorder(model)

    def record(text: Text) -> Recorded:
        if "attention" not in parts:
            return _record(model, text, ())
        with follow_attention(model) as attention:
            return _record(model, text, attention)

    return record


def _record(model: TextModel, text: Text, attention: Sequence[Attended]) -> Recorded:
    states = model.states(text)
    answer = model.head(states[-1], text, model.embedding.words.weight)
    return Recorded(answer, states, attention, text.mask, text.mask if text.packed is None else text.packed.mask)
