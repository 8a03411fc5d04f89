"""News articles in Grover's format (Zellers et al., 2019): fields, each between a begin and an end token.

A model of such texts generates any field, given any others.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from patchword.core.errors import UserError, nearest
from patchword.data.faults import attempt
from patchword.data.randomness import uniform
from patchword.data.text.formats.text_io import lines_of, parse_json, read_utf8

FIELDS = ("domain", "date", "authors", "headline", "body")  # in their usual order
_THEIRS = {"headline": "title", "body": "article"}  # the authors' names, where they differ
_FIRST = 40  # the first purpose of the random numbers

Ids = NDArray[np.int32]


def _marks(field: str) -> tuple[str, str]:
    return f"<|begin{_THEIRS.get(field, field)}|>", f"<|endof{_THEIRS.get(field, field)}|>"


MARKS = tuple(mark for field in FIELDS for mark in _marks(field))


class Pieces(Protocol):
    """The part of a tokenizer's interface that news articles need."""

    def ids_of(self, texts: Sequence[str]) -> list[Ids]: ...

    def id_of(self, token: str) -> int | None: ...


@dataclass(frozen=True)
class FieldTokens:
    """The tokens that begin and end each field."""

    begin: Mapping[str, int]
    end: Mapping[str, int]

    @classmethod
    def of(cls, tokenizer: Pieces) -> "FieldTokens":
        """Look up the tokens by the names of the authors' vocabulary: <|begintitle|>, <|endoftitle|>."""
        found: list[dict[str, int]] = [{}, {}]
        for field in FIELDS:
            for numbers, name in zip(found, _marks(field), strict=True):
                number = tokenizer.id_of(name)
                if number is None:
                    raise UserError("the tokenizer has no tokens for news fields", expected=f"{name} among its entries")
                numbers[field] = number
        return cls(*found)


@dataclass(frozen=True)
class Mixing:
    """The random order and dropout of fields in training (section 4 of the paper).

    bare: probability of dropping all fields except the body, so that the model learns to begin with it.
    dropped: probability of dropping each other field.
    """

    bare: float = 0.35
    dropped: float = 0.1
    seed: int = 0

    def orders(self, articles: Sequence[Collection[str]], epoch: int, samples: Sequence[int]) -> list[list[str]]:
        """Return the fields of each article in training order.

        Fields are dropped at random; the others are split at random into two sets, one after the other, each in the
        usual order. So the model sees each field after any others.

        samples: indices of the articles; the same seed, epoch and index give the same order.
        """
        index = torch.tensor([*samples])
        purposes = range(_FIRST, _FIRST + 1 + 2 * len(FIELDS))
        chances = torch.stack([uniform(self.seed, epoch, index, purpose) for purpose in purposes], 1).tolist()
        return [self._order(fields, row) for fields, row in zip(articles, chances, strict=True)]

    def _order(self, fields: Collection[str], chances: list[float]) -> list[str]:
        check_fields([*fields])
        leaving, second = chances[1 : 1 + len(FIELDS)], chances[1 + len(FIELDS) :]
        bare = chances[0] < self.bare and "body" in fields
        kept = [
            (field, behind < 0.5)
            for field, gone, behind in zip(FIELDS, leaving, second, strict=True)
            if field in fields and (field == "body" or not (bare or gone < self.dropped))
        ]
        return [field for last in (False, True) for field, behind in kept if behind is last]


def article_ids(tokenizer: Pieces, tokens: FieldTokens, article: Mapping[str, str], order: Sequence[str]) -> Ids:
    """Return the ids of the fields in the given order, each between its tokens."""
    check_fields(order)
    pieces = tokenizer.ids_of([article[field] for field in order])
    parts = [[[tokens.begin[field]], ids, [tokens.end[field]]] for field, ids in zip(order, pieces, strict=True)]
    return np.concatenate([np.zeros(0, np.int32), *(np.asarray(part, np.int32) for some in parts for part in some)])


def prompt_ids(tokenizer: Pieces, tokens: FieldTokens, given: Mapping[str, str], wanted: str) -> Ids:
    """Return the ids of the given fields in their usual order, and the begin token of the field to generate."""
    if wanted in given:
        raise UserError(f"the field {wanted!r} is both given and requested", expected="one or the other")
    check_fields([*given, wanted])
    known = article_ids(tokenizer, tokens, given, [field for field in FIELDS if field in given])
    return np.append(known, np.int32(tokens.begin[wanted]))


def check_fields(fields: Sequence[str]) -> None:
    for field in fields:
        if field not in FIELDS:
            raise UserError(f"news articles have no field {field!r}", hint=nearest(field, FIELDS))
    if len(set(fields)) < len(fields):
        raise UserError("a field occurs twice", got=", ".join(fields))


_NAMES = {"title": "headline", "text": "body", "article": "body", "publish_date": "date", "author": "authors"}


def read_articles(path: Path) -> list[dict[str, str]]:
    """Read one JSON object per line with some of the fields; other keys are ignored. Authors are joined to one text."""
    lines = [(number, line.strip()) for number, line in enumerate(lines_of(read_utf8(path)), start=1) if line.strip()]
    if not lines:
        raise UserError(
            f"{path} has no articles", expected="one JSON object per line, e.g. {'headline': ..., 'body': ...}"
        )
    found = (attempt(_article, path, number, line) for number, line in lines)
    return [article for article in found if article is not None]


def _article(path: Path, number: int, line: str) -> dict[str, str]:
    record = parse_json(line, path, number)
    if not isinstance(record, dict):
        raise UserError(f"{path}, line {number}: not an article", expected="a JSON object", got=line[:80])
    article = {}
    for key, value in record.items():
        field = _NAMES.get(key, key)
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        if field in FIELDS and text.strip():
            article[field] = text.strip()
    if "body" not in article:
        raise UserError(f"{path}, line {number}: no body", expected="a text under body", got=", ".join(record))
    return article
