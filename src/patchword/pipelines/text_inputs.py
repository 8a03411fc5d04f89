"""Texts, pairs of texts and questions that a user gives to a pipeline."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from patchword.core.errors import UserError
from patchword.recipes.text.inference.input import TextInput, checked_text

TextGiven: TypeAlias = str | tuple[str, str]
_EXPECTED = "a text, a pair (text, text), or a list of them"


def list_texts(inputs: object, pair: str | None = None, question: str | None = None) -> list[TextInput]:
    """Return the texts of the inputs. pair: the second text of one text. question: asked about every text."""
    given = [inputs] if isinstance(inputs, (str, tuple)) or not isinstance(inputs, Sequence) else list(inputs)
    if not given:
        raise UserError("there are no texts", expected=_EXPECTED, got="an empty list")
    found = [_text(one, f"text {number}" if len(given) > 1 else "the input") for number, one in enumerate(given, 1)]
    second, name = (pair, "pair") if question is None else (question, "question")
    if second is None:
        return found
    if (pair is not None and question is not None) or any(one.pair is not None for one in found):
        raise UserError("more than two texts were given", expected="a text, and one of pair= and question=")
    if pair is not None and len(found) > 1:
        hint = "give a list of pairs: p([(text, pair), (text, pair)])"
        raise UserError("pair= belongs to one text", expected="one text", got=f"{len(found):,}", hint=hint)
    return [replace(one, pair=checked_text(second, name)) for one in found]


def single_texts(inputs: object) -> list[str]:
    """Return one text or several as a list; a pair is an error."""
    found = list_texts(inputs)
    if any(one.pair is not None for one in found):
        raise UserError("this reads single texts", expected="a text, or a list of texts", got="a pair")
    return [one.text for one in found]


def _text(given: object, where: str) -> TextInput:
    if isinstance(given, str):
        return TextInput(checked_text(given, where))
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(one, str) for one in given):
        return TextInput(checked_text(given[0], where), checked_text(given[1], f"{where}, second text"))
    raise UserError(f"{where} is not a text", expected=_EXPECTED, got=type(given).__name__)


def check_pairs(inputs: Sequence[TextInput], paired: bool, asks: bool, name: str) -> None:
    """Check that the inputs have a second text exactly if the task reads one. asks: the second text is a question."""
    has_pair = {one.pair is not None for one in inputs}
    if has_pair == {paired or asks}:
        return
    if asks:
        raise UserError("a question is missing", expected='p(text, question="..."), or p.answer(question, context)')
    if paired:
        raise UserError(f"{name} reads pairs of texts", expected="(text, pair), or pair=", got="a single text")
    raise UserError(f"{name} reads single texts", expected="no pair and no question", got="two texts")
