"""The task of extractive question answering."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.faults import report_fault
from patchword.data.text.batching.assembly import Limit
from patchword.data.text.batching.question_windows import windows
from patchword.data.text.formats.squad import Question, read_squad
from patchword.data.text.formats.text_io import require_file
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.objectives.metrics.answers import CHINESE, ENGLISH
from patchword.recipes.schema.fields import listed
from patchword.recipes.text.inference.answers import SpanAnswer, TextAnswer
from patchword.recipes.text.inference.input import Columns, TextInput
from patchword.recipes.text.inference.outputs import Advance
from patchword.recipes.text.inference.reader import Reader
from patchword.recipes.text.inference.requests import TypedOptions, question_inputs
from patchword.recipes.text.tasks.sets import SpanSet
from patchword.recipes.text.tasks.spec import AnswerOptions, Labels, TextTaskSpec


class SpanTask(TextTaskSpec[list[Question]]):
    name = "span"
    head = "span"
    unit = "windows"
    row = "question"
    example = "window"
    loss = "cross-entropy of both ends (nats)"
    score = "F1"
    asked_as = ("question",)
    hint = "e.g. train=train.json"
    own_columns = Columns("context", "question")

    def classes(self, labels: Labels) -> int:
        return 0

    def metrics(self, labels: Labels) -> tuple[str, ...]:
        return ("f1", "exact")

    def read(self, part: str) -> list[Question]:
        """Read one file or several; training excludes the contexts of the files in `without`."""
        rows = [row for name in listed(getattr(self.recipe, part)) for row in self._read_one(Path(name))]
        if part != "train" or not self.recipe.without:
            return rows
        gone = {row.context for name in listed(self.recipe.without) for row in self._read_one(Path(name))}
        return [row for row in rows if row.context not in gone]

    def _read_one(self, path: Path) -> list[Question]:
        require_file(path, (".json",))
        return self.read_file(path)

    def read_file(self, path: Path) -> list[Question]:
        return read_squad(path, repair=True)

    def labels(self, rows: list[Question]) -> Labels:
        return ()

    def check(self, path: Path, rows: list[Question], labels: Labels) -> None:
        """This task has no labels."""

    def check_trained(self, path: Path, rows: list[Question]) -> None:
        """Check that training answers have a known position; answers that are only scored need none."""
        for question in rows:
            if not question.impossible and all(answer.start is None for answer in question.answers):
                error = UserError(
                    f"{path}, question {question.id!r}: no answer to train on",
                    expected="an answer that is in its context, at answer_start or once",
                    got=repr(question.answers[0].text[:80]),
                )
                report_fault(error)

    def known_by(self, rows: list[Question]) -> Iterator[tuple[Hashable, str]]:
        return (((row.question, row.context), f"question {row.id!r}") for row in rows)

    def groups(self, rows: list[Question]) -> Tensor:
        """Questions over one article stay together."""
        numbers = {name: number for number, name in enumerate(dict.fromkeys(row.article for row in rows))}
        return torch.tensor([numbers[row.article] for row in rows])

    def taken(self, rows: list[Question], index: Sequence[int]) -> list[Question]:
        return [rows[row] for row in index]

    def texts(self, tokenizer: Tokenizer, rows: list[Question], labels: Labels, name: str) -> SpanSet:
        language = CHINESE if self.recipe.language == "chinese" else ENGLISH
        return SpanSet(windows(tokenizer, name, rows, self._limit), language)

    def read_inputs(self, inputs: Sequence[str], words: TypedOptions) -> Iterable[TextInput]:
        return question_inputs(self.columns(words), inputs, words)

    def answers(
        self, reader: Reader, asked: Sequence[TextInput], options: AnswerOptions, advance: Advance
    ) -> Iterator[TextAnswer]:
        questions = [Question("", one.pair or "", one.text, (), "", options.empty) for one in asked]
        texts = self.texts(reader.tokenizer, questions, (), "asked")
        reader.counts.add(texts.examples)
        outputs = reader.outputs(texts.examples, len(asked), advance)
        return (SpanAnswer(found, options.top) for found in texts.answers(outputs))

    @property
    def _limit(self) -> Limit:
        return Limit(self.recipe.length, self.recipe.stride or self.recipe.length // 3)
