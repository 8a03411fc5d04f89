"""The specification of a text task: one object per task that a recipe can name.

The spec defines what differs between tasks: how files are read and split, the head of the model, how rows become
examples, and how inputs are read at inference. The text set that it builds defines the objective and the scores.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Generic, TypeVar, cast

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.text.inference.answers import TextAnswer
from patchword.recipes.text.inference.input import Columns, TextInput, piped
from patchword.recipes.text.inference.outputs import Advance
from patchword.recipes.text.inference.reader import Reader
from patchword.recipes.text.inference.requests import TypedOptions
from patchword.recipes.text.recipe import TextRecipe, TextTaskName
from patchword.recipes.text.tasks.sets import TextSet

TextRows = TypeVar("TextRows")  # of a file
Labels = tuple[str, ...]
IN_WINDOWS = (
    "only single texts and questions are split into windows; in pairs the longer text is truncated, long tagged "
    "sentences are always split"
)


@dataclass(frozen=True)
class AnswerOptions:
    """Options of predictions. top: how many classes or spans to return. empty: True if "" is a valid answer.

    temperature: the logits of classes are divided by it; 1 gives the probabilities as trained.
    """

    top: int = 3
    empty: bool = False
    temperature: float = 1.0


@dataclass(frozen=True)
class TextTaskSpec(ABC, Generic[TextRows]):
    recipe: TextRecipe

    name: ClassVar[TextTaskName]
    head: ClassVar[str]
    unit: ClassVar[str] = "texts"  # what the loss is a mean over
    row: ClassVar[str] = "text"  # what one row of a file is called
    example: ClassVar[str] = "text"  # what one example is called
    loss: ClassVar[str] = "cross-entropy (nats)"
    score: ClassVar[str] = "accuracy"  # the metric in `expect`, in words
    asked_as: ClassVar[tuple[str, ...]] = ("text", "pair")  # the input columns that are shown beside an answer

    @property
    @abstractmethod
    def hint(self) -> str:
        """Return how the user names the training texts, e.g. train=reviews.csv."""

    @property
    def paired(self) -> bool:
        """Return True if each example has two texts."""
        return False

    def idle(self) -> dict[str, str]:
        """Return the recipe fields that have no effect on this task, each with the reason."""
        return {
            "class_weights": "they require task=classes",
            "sampling": "it requires task=classes",
            "label_smoothing": "it requires task=classes",
        }

    def classes(self, labels: Labels) -> int:
        """Return the number of outputs of the model's head."""
        return len(labels)

    @abstractmethod
    def metrics(self, labels: Labels) -> tuple[str, ...]:
        """Return the names of the metrics; the first one selects the best epoch."""

    def metric(self, labels: Labels) -> str:
        """Return the metric that selects the best epoch."""
        known, asked = self.metrics(labels), self.recipe.metric
        if asked and asked not in known:
            raise UserError(f"this task is not scored by {asked!r}", expected=" or ".join(known))
        return asked or known[0]

    def read(self, part: str) -> TextRows:
        path = Path(getattr(self.recipe, part))
        if not path.exists():
            raise UserError(f"there is no file {path}", expected=f"the {part} texts")
        return self.read_file(path)

    @abstractmethod
    def read_file(self, path: Path) -> TextRows: ...

    @abstractmethod
    def labels(self, rows: TextRows) -> Labels:
        """Return the names of the labels, in order of their ids."""

    @abstractmethod
    def check(self, path: Path, rows: TextRows, labels: Labels) -> None:
        """Raise an error for a label that is not in the training file."""

    def check_trained(self, path: Path, rows: TextRows) -> None:
        """Check requirements that only training rows have to meet."""

    @abstractmethod
    def known_by(self, rows: TextRows) -> Iterator[tuple[Hashable, str]]:
        """Yield per row a key that is equal for equal rows, and the location of the row as text."""

    def records(self, rows: TextRows) -> Iterable[object]:
        """Return everything that the file has of each row."""
        return cast(Iterable[object], rows)

    @abstractmethod
    def groups(self, rows: TextRows) -> Tensor:
        """Return a group id per row, (rows,): rows of the same group stay in the same data split."""

    def strata(self, rows: TextRows, groups: Tensor) -> Tensor:
        """Return a stratum id per row, (rows,) from 0: the same fraction of each stratum is held out."""
        return torch.zeros_like(groups)

    @abstractmethod
    def taken(self, rows: TextRows, index: Sequence[int]) -> TextRows: ...

    @abstractmethod
    def texts(self, tokenizer: Tokenizer, rows: TextRows, labels: Labels, name: str) -> TextSet: ...

    @property
    @abstractmethod
    def own_columns(self) -> Columns:
        """Return the default columns of an input table."""

    def columns(self, words: TypedOptions) -> Columns:
        own = self.own_columns
        return replace(own, text=words.text or own.text, pair=(words.pair or own.pair) if own.pair else "")

    def asked(self, inputs: Sequence[str], words: TypedOptions = TypedOptions()) -> list[TextInput]:
        """Read all inputs before the first prediction; a row of a file that cannot be read has an error."""
        if words.question and "question" not in self.asked_as:
            raise UserError("this run answers no questions", expected="a run of the recipe squad", got=self.name)
        return list(self.read_inputs(inputs or [piped()], words))

    @abstractmethod
    def read_inputs(self, inputs: Sequence[str], words: TypedOptions) -> Iterable[TextInput]: ...

    @abstractmethod
    def answers(
        self, reader: Reader, asked: Sequence[TextInput], options: AnswerOptions, advance: Advance
    ) -> Iterator[TextAnswer]: ...
