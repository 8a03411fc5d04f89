"""What the page Words asks of a text model, with bounds on the texts."""

from typing import Annotated

from pydantic import Field

from patchword.core.errors import UserError
from patchword.lab.requests import Fields

MOST_CHARACTERS = 2_000
MOST_SENTENCES = 12
MOST_MASKS = 8
MOST_WORDS = 20  # answers of fill and next

Top = Annotated[int, Field(ge=1, le=MOST_WORDS)]
Place = Annotated[int, Field(ge=0, le=MOST_CHARACTERS)]


class TextRequest(Fields):
    text: str


class FillRequest(TextRequest):
    """places: the characters [start, end) of the words to mask, besides each [MASK] of the text."""

    places: Annotated[tuple[tuple[Place, Place], ...], Field(max_length=MOST_MASKS)] = ()
    top: Top = 8


class NextRequest(TextRequest):
    top: Top = 8


class SimilarRequest(Fields):
    word: str
    sentences: tuple[str, ...]


class AnswerRequest(TextRequest):
    question: str


class WalkRequest(TextRequest):
    token: Annotated[int, Field(ge=0, le=MOST_CHARACTERS)] = 0
    layer: Annotated[int, Field(ge=1, le=1_000)] = 1


def bounded(text: str, what: str = "the text", can_be_empty: bool = False) -> str:
    """Return a text of a request; one that is empty or too long is an error."""
    if not text.strip() and not can_be_empty:
        raise UserError(f"{what} is empty", expected="at least one word")
    if len(text) > MOST_CHARACTERS:
        expected = f"at most {MOST_CHARACTERS:,} characters in the lab"
        raise UserError(f"{what} is too long", expected=expected, got=f"{len(text):,}")
    return text


def bounded_sentences(sentences: tuple[str, ...]) -> list[str]:
    """Return the sentences of a request, at most as many as a matrix can show."""
    if not 2 <= len(sentences) <= MOST_SENTENCES:
        raise UserError(
            "the number of sentences", expected=f"2 to {MOST_SENTENCES} sentences, one per line", got=len(sentences)
        )
    return [bounded(one, f"sentence {number}") for number, one in enumerate(sentences, 1)]
