"""A lesson as the page gets it."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Span:
    """A piece of a text. kind: text, emphasis, strong, code, or link. to: the view that a link opens."""

    kind: str
    text: str
    to: str = ""


@dataclass(frozen=True)
class Step:
    """A view of the lab with two sentences about it and something to try. view: its address, e.g. #/cost?depth=8."""

    title: str
    view: str
    text: tuple[Span, ...]
    task: tuple[Span, ...]


@dataclass(frozen=True)
class Lesson:
    """Steps in their order. name: what addresses call it. about: one line. own: it is not one of patchword's."""

    name: str
    title: str
    about: str
    steps: tuple[Step, ...]
    own: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
