"""News articles as Grover reads them (Zellers et al., 2019): fields, each between a token that begins it and one that
ends it. A model of such texts writes any field, given any others."""

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

FIELDS = ("domain", "date", "authors", "headline", "body")  # in the order in which they stand
_THEIRS = {"headline": "title", "body": "article"}  # the authors' names in their vocabulary, where they are others
_FIRST = 40  # the first of the purposes that a random number is for

Ids = NDArray[np.int32]


def _marks(field: str) -> tuple[str, str]:
    return f"<|begin{_THEIRS.get(field, field)}|>", f"<|endof{_THEIRS.get(field, field)}|>"


MARKS = tuple(mark for field in FIELDS for mark in _marks(field))


class Pieces(Protocol):
    """What is needed of a tokenizer."""

    def ids_of(self, texts: Sequence[str]) -> list[Ids]: ...

    def id_of(self, token: str) -> int | None: ...


@dataclass(frozen=True)
class FieldTokens:
    """The tokens that begin and end each field."""

    begin: Mapping[str, int]
    end: Mapping[str, int]

    @classmethod
    def of(cls, tokenizer: Pieces) -> "FieldTokens":
        """By the names that the authors' vocabulary has: <|begintitle|>, <|endoftitle|>."""
        found: list[dict[str, int]] = [{}, {}]
        for field in FIELDS:
            for numbers, name in zip(found, _marks(field), strict=True):
                number = tokenizer.id_of(name)
                if number is None:
                    raise UserError("the tokenizer knows no fields of news", expected=f"{name} among its entries")
                numbers[field] = number
        return cls(*found)


@dataclass(frozen=True)
class Mixing:
    """How fields are dealt for training (section 4 of the paper).

    bare: how often all but the body is dropped, so that a model learns to begin with it.
    dropped: how often each other field is.
    """

    bare: float = 0.35
    dropped: float = 0.1
    seed: int = 0

    def orders(self, articles: Sequence[Collection[str]], epoch: int, samples: Sequence[int]) -> list[list[str]]:
        """Of articles with these fields the ones that stay, dealt to two sets by chance; one set stands behind the
        other, each in its order. So each field is learned after any others.

        samples: the articles' numbers; the same seed, epoch and number give the same order.
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
    """The fields of an article in an order, each between its tokens."""
    check_fields(order)
    pieces = tokenizer.ids_of([article[field] for field in order])
    parts = [[[tokens.begin[field]], ids, [tokens.end[field]]] for field, ids in zip(order, pieces, strict=True)]
    return np.concatenate([np.zeros(0, np.int32), *(np.asarray(part, np.int32) for some in parts for part in some)])


def prompt_ids(tokenizer: Pieces, tokens: FieldTokens, given: Mapping[str, str], wanted: str) -> Ids:
    """The fields that are given, in their order, and the beginning of the one that is to be written."""
    if wanted in given:
        raise UserError(f"the field {wanted!r} is given and wanted", expected="one or the other")
    check_fields([*given, wanted])
    known = article_ids(tokenizer, tokens, given, [field for field in FIELDS if field in given])
    return np.append(known, np.int32(tokens.begin[wanted]))


def check_fields(fields: Sequence[str]) -> None:
    for field in fields:
        if field not in FIELDS:
            raise UserError(f"news have no field {field!r}", hint=nearest(field, FIELDS))
    if len(set(fields)) < len(fields):
        raise UserError("a field is there twice", got=", ".join(fields))


_NAMES = {"title": "headline", "text": "body", "article": "body", "publish_date": "date", "author": "authors"}


def read_articles(path: Path) -> list[dict[str, str]]:
    """JSON records, one a line, with some of the fields; other keys are passed over. Several authors are one text."""
    lines = [(number, line.strip()) for number, line in enumerate(lines_of(read_utf8(path)), start=1) if line.strip()]
    if not lines:
        raise UserError(
            f"{path} holds no articles", expected="a JSON record a line, e.g. {'headline': ..., 'body': ...}"
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
