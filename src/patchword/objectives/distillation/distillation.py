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


class Seen(NamedTuple):
    """The recorded outputs of a model.

    states: the input of the first block and the output of each block. attention: of each block, in order.
    there: (batch, tokens), True where a state belongs to a token; None means everywhere.
    queries: the same for the queries of attention, which are padded even if the texts are packed.
    """

    answer: Any
    states: Sequence[Tensor] = ()
    attention: Sequence[Attended] = ()
    there: Tensor | None = None
    queries: Tensor | None = None


Look = Callable[[Any], Seen]


class Lesson(Protocol):
    """A distillation loss: the mean distance between student and teacher over a micro-batch."""

    @property
    def reads(self) -> Part: ...

    def __call__(self, student: Seen, teacher: Seen, piece: Any) -> Tensor: ...

    def share(self, piece: Any, batch: Any) -> float:
        """Return the weight of the micro-batch in the mean over its batch."""
        ...


@dataclass(frozen=True)
class ByExamples:
    """A lesson averaged like the objective's loss: over examples, masked words or tags."""

    def share(self, piece: Any, batch: Any) -> float:
        return float(piece.weight / batch.weight)


@dataclass(frozen=True)
class ByTokens:
    """A lesson averaged over the tokens of all texts; images have the same number of tokens each."""

    def share(self, piece: Any, batch: Any) -> float:
        return float(piece.tokens / batch.tokens) if hasattr(batch, "tokens") else float(piece.weight / batch.weight)


@dataclass(frozen=True)
class Weighted:
    """A lesson and its weight."""

    weight: float
    lesson: Lesson


class Distillation:
    """own * the student's own loss + the weighted sum of the lessons.

    objective: builds the student's own objective, given a module in the place of the student.
    student, teacher: functions that run each model and record it. The teacher runs without gradient; see `frozen`.
    """

    def __init__(
        self,
        objective: Callable[[Callable[[Any], Any]], Callable[[Any, Any], Any]],
        student: Look,
        teacher: Look,
        lessons: Iterable[Weighted],
        own: float = 1.0,
    ) -> None:
        self.student, self.teacher, self.lessons, self.own = student, teacher, tuple(lessons), own
        self.objective = objective(self._answer)
        self._inputs: Any = None
        self._seen: Seen | None = None

    def _answer(self, inputs: Any) -> Any:
        if isinstance(inputs, Text):
            inputs = inputs._replace(targets=None)  # the logits are compared with the teacher's
        self._inputs, self._seen = inputs, self.student(inputs)
        return self._seen.answer

    def __call__(self, piece: Any, batch: Any) -> Outcome:
        outcome = self.objective(piece, batch)
        seen, self._seen = self._seen, None  # freed as soon as possible
        assert seen is not None, "the objective asks the student"
        with torch.no_grad():
            taught = self.teacher(self._inputs)
        loss = self.own * outcome.loss
        for weight, lesson in ((weighted.weight, weighted.lesson) for weighted in self.lessons):
            loss = loss + weight * lesson.share(piece, batch) * lesson(seen, taught, piece)
        return Outcome(loss, outcome.right)


def reads(lessons: Iterable[Weighted]) -> frozenset[Part]:
    """Return what has to be recorded for these lessons."""
    return frozenset(weighted.lesson.reads for weighted in lessons)


def frozen(teacher: nn.Module) -> nn.Module:
    """Return the model in evaluation mode, without gradients."""
    return teacher.eval().requires_grad_(False)


def look_at_answers(model: Callable[[Any], Any]) -> Look:
    """Record the output only; the model may be compiled."""
    return lambda inputs: Seen(model(inputs))


def look_at_text(model: TextModel, parts: frozenset[Part]) -> Look:
    """Record the output, all states and, if needed, the attention of every block, computed by the reference formula."""
    if parts <= {"answer"}:
        return look_at_answers(model)

    def look(text: Text) -> Seen:
        if "attention" not in parts:
            return _seen(model, text, ())
        with follow_attention(model) as attention:
            return _seen(model, text, attention)

    return look


def _seen(model: TextModel, text: Text, attention: Sequence[Attended]) -> Seen:
    states = model.states(text)
    answer = model.head(states[-1], text, model.embedding.words.weight)
    return Seen(answer, states, attention, text.mask, text.mask if text.packed is None else text.packed.mask)
