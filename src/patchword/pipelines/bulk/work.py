"""What is computed for each shard: vectors or predictions, of texts or images.

A work is plain values, so that it can be sent to other processes, which open the model themselves.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from patchword.pipelines.bulk.answered import Answered
from patchword.pipelines.bulk.rows import Row
from patchword.recipes.text.inference.input import Columns
from patchword.recipes.text.inference.requests import TypedOptions


class OpenedWork(ABC):
    """A work with its model.

    columns: what is read of a text row; None if the model reads images. asked_as: the columns that repeat the input.
    options: all that decides the answers, resolved, as manifest and messages have it. record_names, row_names: the
    fields of answers; a column of the input with such a name becomes given_NAME.
    """

    columns: Columns | None
    asked_as: Sequence[str]
    options: dict[str, Any]
    record_names: frozenset[str]
    row_names: frozenset[str]
    width: int = 0  # of vectors; 0 for predictions

    @abstractmethod
    def answer(self, rows: Sequence[Row]) -> Answered:
        """Return an answer for each row; `NoAnswer` for one that cannot be read."""


@dataclass(frozen=True)
class EmbedWork:
    """Vectors, as `patchword embed` makes them. text: the column of a table."""

    model: str
    text: str = "text"
    layer: int | None = None
    pool: Literal["mean", "first", "pooler"] | None = None
    normalize: bool | None = None
    length: int | None = None
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"


@dataclass(frozen=True)
class PredictWork:
    """Predictions, as `patchword predict` makes them, by a classifier of images or a model of texts.

    words: the columns of a table. calibrated: with the run's temperature.
    """

    model: str
    words: TypedOptions = field(default_factory=TypedOptions)
    top: int = 3
    empty: bool | None = None
    calibrated: bool = False
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"


Work = EmbedWork | PredictWork
