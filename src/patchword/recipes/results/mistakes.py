"""The most confident mistakes of a classifier on its test set, saved as mistakes.json for those who look at a run."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from patchword.core.errors import UserError
from patchword.core.files import read_json, write_json
from patchword.objectives.metrics.classification import Scores

MISTAKES = "mistakes.json"
MOST = 24
_LONGEST = 400  # characters of a text


@dataclass(frozen=True)
class Mistake:
    """A wrong prediction. index: of the example in the test set. image: a small PNG; text: its beginning."""

    index: int
    truth: str
    predicted: str
    confidence: float
    image: bytes = b""
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "image": b64encode(self.image).decode(), "text": self.text[:_LONGEST]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Mistake":
        found = cls(**{**values, "image": b64decode(values["image"], validate=True)})
        if not all(isinstance(one, str) for one in (found.truth, found.predicted, found.text)):
            raise TypeError("names and texts are strings")
        return found


@runtime_checkable
class HasMistakes(Protocol):
    """The evaluation of a classifier."""

    def mistakes(self) -> list[Mistake]: ...


def mistakes_of(scores: Scores) -> list[Mistake]:
    """Return the most confident mistakes, without their images or texts."""
    return [
        Mistake(
            index,
            scores.classes[int(scores.labels[index])],
            scores.classes[int(scores.predictions[index])],
            float(scores.confidence[index]),
        )
        for index in scores.mistakes(MOST).tolist()
    ]


def save_mistakes(found: object, folder: Path) -> None:
    """Write mistakes.json; nothing for an evaluation that has none."""
    if isinstance(found, HasMistakes):
        write_json(folder / MISTAKES, [mistake.to_json() for mistake in found.mistakes()])


def read_mistakes(folder: Path) -> Sequence[Mistake] | None:
    """Return the saved mistakes; None for a run that has none, or whose file cannot be read."""
    if not (folder / MISTAKES).is_file():
        return None
    try:
        return [Mistake.from_json(values) for values in read_json(folder / MISTAKES)]
    except (UserError, OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
