"""Spans encoded by tags (B-person I-person O), and precision, recall and F1 of predicted spans.

A predicted span is correct if its start, its end and its kind are correct.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from patchword.core.errors import UserError

Reading = Literal["lenient", "iob2", "bioes"]
"""How tags are decoded.

lenient: as in the CoNLL script and in seqeval's default mode. A span also begins at an I tag after O or another kind
(IOB1), and ends before the first tag that does not continue it.
iob2, bioes: as in seqeval's strict mode of that scheme. A span begins with B (or is S); in BIOES it must end with E.
"""

_TAG = re.compile(r"O|([BIMELSU])(?:-(.+))?")
_PLAIN = {"M": "I", "L": "E", "U": "S"}  # other letters of BMES and BILOU


class Span(NamedTuple):
    kind: str
    start: int
    end: int  # index of the word after the last one


@dataclass(frozen=True)
class SpanScore:
    """Numbers of correct, predicted and true spans. Precision, recall and F1 are 0 instead of undefined."""

    right: int
    predicted: int
    true: int

    @property
    def precision(self) -> float:
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.right / (self.predicted + self.true) if self.predicted + self.true else 0.0


@dataclass(frozen=True)
class SpanScores:
    overall: SpanScore  # over all spans, as papers report
    kinds: dict[str, SpanScore]  # per kind that occurs among the true or the predicted spans, in alphabetical order


def are_span_tags(names: Iterable[str]) -> bool:
    """Return True if all tags encode spans (B-person); part-of-speech tags do not."""
    tags = set(names) - {"O"}
    return bool(tags) and all(_TAG.fullmatch(tag) for tag in tags)


def spans_of(tags: Sequence[str], reading: Reading = "lenient") -> list[Span]:
    """Return the spans of one sentence, from left to right."""
    spans: list[Span] = []
    opened: Span | None = None  # a span whose end is not known yet
    for place, tag in enumerate((*tags, "O")):
        letter, kind = _parts(tag)
        if opened and letter in "IE" and kind == opened.kind:
            if letter == "E":
                spans.append(opened._replace(end=place + 1))
                opened = None
            continue
        if opened and reading != "bioes":
            spans.append(opened._replace(end=place))
        opened = None
        if letter == "S" or (letter == "E" and reading == "lenient"):
            spans.append(Span(kind, place, place + 1))
        elif letter == "B" or (letter == "I" and reading == "lenient"):
            opened = Span(kind, place, place)
    return spans


def span_scores(
    predicted: Sequence[Sequence[str]], truth: Sequence[Sequence[str]], reading: Reading = "lenient"
) -> SpanScores:
    """Score the spans of predicted tags. predicted, truth: one sequence of tags per sentence."""
    found, true = _numbered(predicted, reading), _numbered(truth, reading)
    for number, (ours, theirs) in enumerate(zip(predicted, truth, strict=True)):
        if len(ours) != len(theirs):
            raise ValueError(f"sentence {number} has {len(theirs)} tags, {len(ours)} were predicted")
    kinds = sorted({span.kind for _, span in found | true})
    scores = {kind: _score(_of_kind(found, kind), _of_kind(true, kind)) for kind in kinds}
    return SpanScores(_score(found, true), scores)


def _numbered(sentences: Sequence[Sequence[str]], reading: Reading) -> set[tuple[int, Span]]:
    return {(number, span) for number, tags in enumerate(sentences) for span in spans_of(tags, reading)}


def _of_kind(spans: set[tuple[int, Span]], kind: str) -> set[tuple[int, Span]]:
    return {item for item in spans if item[1].kind == kind}


def _score(found: set[tuple[int, Span]], true: set[tuple[int, Span]]) -> SpanScore:
    return SpanScore(len(found & true), len(found), len(true))


def _parts(tag: str) -> tuple[str, str]:
    """Return the letter of a tag, one of BIESO, and the kind of its span."""
    match = _TAG.fullmatch(tag)
    if match is None:
        raise UserError(f"the tag {tag!r} does not encode a span", expected="O, or B-kind, I-kind, E-kind, S-kind")
    letter = match[1] or "O"
    return _PLAIN.get(letter, letter), match[2] or ("" if letter == "O" else "_")
