"""Predictions for the rows of a shard."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from patchword.core.errors import UserError
from patchword.objectives.metrics.answer_search import Answers
from patchword.pipelines.bulk.answered import Answer, Answered, ImageClasses
from patchword.pipelines.bulk.embedding import no_answer
from patchword.pipelines.bulk.rows import Row
from patchword.pipelines.bulk.work import OpenedWork, PredictWork
from patchword.pipelines.images import ImageEngine
from patchword.pipelines.texts import TextEngine
from patchword.recipes.text.inference.answers import (
    ClassAnswer,
    LabelsAnswer,
    NumberAnswer,
    SpanAnswer,
    TagAnswer,
    Tagged,
    TextAnswer,
)
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.text.inference.reader import Counts
from patchword.recipes.text.tasks.all_tasks import task_spec_of


class PredictTexts(OpenedWork):
    """What the head of a text model predicts."""

    def __init__(self, work: PredictWork, engine: TextEngine) -> None:
        words = work.words
        self._engine, self._top, self._empty = engine, work.top, work.empty
        self._recipe = engine.recipe(paired=bool(words.pair))
        spec = task_spec_of(self._recipe)
        if words.question:
            raise UserError(
                "--question asks one question about one text",
                expected="a table with a column of questions",
                hint="--pair names the column",
            )
        self.columns, self.asked_as = spec.columns(words), spec.asked_as
        if words.pair and not self.columns.pair:
            raise UserError("this run reads single texts", expected="no --pair", got=words.pair)
        example = _example(spec.name, engine.reader.labels, work.top)
        self.record_names, self.row_names = _names(example)
        self.options = {
            "text": self.columns.text,
            "pair": self.columns.pair,
            "top": work.top,
            "empty": work.empty,
            "temperature": engine.temperature,
            "device": engine.reader.form.device.type,
            "precision": engine.reader.precision,
        }

    def answer(self, rows: Sequence[Row]) -> Answered:
        engine = replace(self._engine, reader=replace(self._engine.reader, counts=Counts()))
        good = [row.given for row in rows if isinstance(row.given, TextInput) and row.error is None]
        found = iter(engine.predict(good, self._recipe, self._top, self._empty))
        answers: list[Answer] = [next(found) if row.error is None else no_answer(row.error) for row in rows]
        return Answered(answers, engine.reader.counts.shortened)


class PredictImages(OpenedWork):
    """The classes of images."""

    columns = None
    asked_as = ()

    def __init__(self, work: PredictWork, engine: ImageEngine) -> None:
        words = work.words
        if words.text or words.pair or words.question:
            raise UserError(f"{work.model} reads images", expected="no --text, --pair or --question")
        self._engine, self._top = engine, work.top
        example = _with_columns(_classes(engine.labels, work.top))
        self.record_names, self.row_names = _names(example)
        self.options = {
            "top": work.top,
            "temperature": engine.temperature,
            "device": engine.device.type,
            "precision": engine.precision,
        }

    def answer(self, rows: Sequence[Row]) -> Answered:
        images = [row.given for row in rows if isinstance(row.given, Path)]
        found = self._engine.try_classify(images, self._top)
        return Answered([no_answer(one) if isinstance(one, UserError) else _with_columns(one) for one in found])


def _with_columns(answer: ClassAnswer) -> ImageClasses:
    return ImageClasses(answer, answer.probabilities)


def _names(example: Answer) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(example.record()), frozenset(name for row in example.rows() for name in row)


def _classes(labels: Sequence[str], top: int) -> ClassAnswer:
    return ClassAnswer(tuple((label, 0.0) for label in labels[:top]))


def _example(task: str, labels: Sequence[str], top: int) -> TextAnswer:
    """Return an answer that has all fields of the answers of a task."""
    match task:
        case "classes":
            return _classes(labels, top)
        case "labels":
            return LabelsAnswer(tuple((label, 0.0) for label in labels))
        case "number":
            return NumberAnswer(0.0)
        case "tags":
            return TagAnswer("a", (Tagged("a", "O", 0.0, 0, 1),), spells_spans=True)
    return SpanAnswer(Answers((), None, 0.0), 1)
