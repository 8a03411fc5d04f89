"""The record of a row: where it is, the other columns of the input, the texts, and what the model answered."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from patchword.pipelines.bulk.rows import Row
from patchword.recipes.text.inference.input import TextInput


def combined(
    place: Mapping[str, Any],
    others: Mapping[str, Any],
    head: Mapping[str, Any],
    answer: Mapping[str, Any],
    taken: Collection[str] = (),
) -> dict[str, Any]:
    """Return one record. head: the texts that it repeats. taken: fields of answers that this one may not have.

    A column of the input whose name is taken becomes given_NAME.
    """
    record = {**place, **head, **answer}
    kept = {f"given_{name}" if name in record or name in taken else name: cell for name, cell in others.items()}
    return {**place, **kept, **record}


def head_of(row: Row, asked_as: Sequence[str]) -> dict[str, str]:
    """Return the texts of a row that its record repeats."""
    if not isinstance(row.given, TextInput):
        return {}
    texts = {"text": row.given.text, "pair": row.given.pair, "question": row.given.pair}
    return {name: text for name in asked_as if (text := texts[name]) is not None}
