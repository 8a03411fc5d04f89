"""What a model answers for the rows of a shard, in the order of the rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from patchword.recipes.text.inference.answers import Row as Cells


class Answer(Protocol):
    """An answer in two forms: a record of JSON, and rows of a CSV file."""

    def record(self) -> dict[str, Any]: ...

    def rows(self) -> list[Cells]: ...


@dataclass(frozen=True)
class VectorAnswer:
    """The vector of a text or an image."""

    vector: NDArray[np.float32]

    def record(self) -> dict[str, Any]:
        return {"vector": _plain(self.vector)}

    def rows(self) -> list[Cells]:
        return [{str(place): value for place, value in enumerate(_plain(self.vector))}]


@dataclass(frozen=True)
class ImageClasses:
    """The classes of an image, with the columns that `predict --csv` has for images."""

    answer: Answer
    classes: Sequence[tuple[str, float]]

    def record(self) -> dict[str, Any]:
        return self.answer.record()

    def rows(self) -> list[Cells]:
        ranked = enumerate(self.classes, 1)
        return [{f"{kind}_{rank}": cell for rank, one in ranked for kind, cell in _named(one)}]


@dataclass(frozen=True)
class Answered:
    """The answers of a shard. truncated: how many texts were longer than the model reads."""

    answers: Sequence[Answer]
    truncated: int = 0


def _named(one: tuple[str, float]) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("class", one[0]), ("probability", f"{one[1]:.6f}")


def _plain(vector: NDArray[np.float32]) -> list[float]:
    """Format a number with as few digits as identify it."""
    return [float(str(value)) for value in vector]
