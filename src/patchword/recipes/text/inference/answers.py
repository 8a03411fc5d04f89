"""Answers of a model, typed, and in three forms: a JSON record, rows of a table, and cells for the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from patchword.objectives.metrics.answer_search import Answers
from patchword.objectives.metrics.tag_spans import spans_of

_NONE = {"text": "", "start": None, "end": None, "score": None, "probability": None}  # no answer
Row = dict[str, Any]  # column -> cell
NameAndProbability = tuple[str, float]  # a name and its probability


@dataclass(frozen=True)
class ClassAnswer:
    """The most probable classes of an image or a text, the best first."""

    probabilities: tuple[NameAndProbability, ...]

    def record(self) -> dict[str, Any]:
        first, *others = ({"label": name, "probability": probability} for name, probability in self.probabilities)
        return {**first, "next": others}

    def rows(self) -> list[Row]:
        row: Row = {}
        for rank, (name, probability) in enumerate(self.probabilities, 1):
            ending = "" if rank == 1 else f"_{rank}"
            row |= {f"label{ending}": name, f"probability{ending}": f"{probability:.6f}"}
        return [row]

    def cells(self) -> list[dict[str, str]]:
        (name, probability), *others = self.probabilities
        return [{"label": name, "probability": f"{probability:.1%}", "next": _listed(others)}]


@dataclass(frozen=True)
class LabelsAnswer:
    """Every label with its probability; labels above 0.5 are predicted."""

    probabilities: tuple[NameAndProbability, ...]

    @property
    def chosen(self) -> list[NameAndProbability]:
        return sorted((pair for pair in self.probabilities if pair[1] > 0.5), key=lambda pair: -pair[1])

    def record(self) -> dict[str, Any]:
        return {"labels": [name for name, _ in self.chosen], "probabilities": dict(self.probabilities)}

    def rows(self) -> list[Row]:
        labels = "|".join(name for name, _ in self.chosen)
        return [
            {
                "labels": labels,
                **{f"probability of {name}": f"{probability:.6f}" for name, probability in self.probabilities},
            }
        ]

    def cells(self) -> list[dict[str, str]]:
        return [{"labels": _listed(self.chosen) or "none"}]


@dataclass(frozen=True)
class NumberAnswer:
    number: float

    def record(self) -> dict[str, Any]:
        return {"number": self.number}

    def rows(self) -> list[Row]:
        return [{"number": f"{self.number:.6g}"}]

    def cells(self) -> list[dict[str, str]]:
        return [{"number": f"{self.number:.4g}"}]


class Tagged(NamedTuple):
    word: str
    tag: str
    probability: float
    start: int  # characters of the text
    end: int


class TagSpan(NamedTuple):
    """Several words that form a name or a phrase. start, end: characters of the text."""

    text: str
    kind: str
    start: int
    end: int


@dataclass(frozen=True)
class TagAnswer:
    """The words of a text with their tags, and the spans if the tags are BIO tags (B-person I-person O)."""

    text: str
    words: tuple[Tagged, ...]
    spells_spans: bool

    def spans(self) -> list[TagSpan]:
        places = [(span.kind, self.words[span.start].start, self.words[span.end - 1].end) for span in self._found()]
        return [TagSpan(self.text[start:end], kind, start, end) for kind, start, end in places]

    def record(self) -> dict[str, Any]:
        values: dict[str, Any] = {"text": self.text, "words": [word._asdict() for word in self.words]}
        return {**values, "spans": [span._asdict() for span in self.spans()]} if self.spells_spans else values

    def rows(self) -> list[Row]:
        return [{**word._asdict(), "probability": f"{word.probability:.6f}"} for word in self.words]

    def cells(self) -> list[dict[str, str]]:
        tagged = {"words and tags": " ".join(f"{word.word}/{word.tag}" for word in self.words)}
        if not self.spells_spans:
            return [tagged]
        spans = [
            {"span": span.text, "kind": span.kind, "characters": f"{span.start}-{span.end}"} for span in self.spans()
        ]
        first, *others = spans or [{"span": "none"}]
        return [tagged | first, *others]

    def _found(self) -> Sequence[Any]:
        return spans_of([word.tag for word in self.words]) if self.spells_spans else ()


class FoundAnswer(NamedTuple):
    """A possible answer to a question. start, end: characters of the context; None and an empty text: no answer."""

    text: str
    start: int | None
    end: int | None
    score: float
    probability: float


@dataclass(frozen=True)
class SpanAnswer:
    """The best answers to a question; an empty text means that there is no answer."""

    found: Answers
    top: int

    def ranked(self) -> list[FoundAnswer]:
        shown = [FoundAnswer(**vars(candidate)) for candidate in self.found.candidates]
        if self.found.null is not None:
            shown.append(FoundAnswer("", None, None, self.found.null, self.found.null_probability))
        return sorted(shown, key=lambda answer: -answer.score)[: self.top]

    def record(self) -> dict[str, Any]:
        answers = self.ranked()
        return {"answer": answers[0].text if answers else "", "answers": [answer._asdict() for answer in answers]}

    def rows(self) -> list[Row]:
        ranked = enumerate([answer._asdict() for answer in self.ranked()] or [_NONE], 1)
        return [{"rank": rank, "answer": answer["text"], **_without(answer, "text")} for rank, answer in ranked]

    def cells(self) -> list[dict[str, str]]:
        return [
            {
                "answer": answer.text or "(no answer)",
                "probability": f"{answer.probability:.1%}",
                "score": f"{answer.score:.2f}",
                "characters": "" if answer.start is None else f"{answer.start}-{answer.end}",
            }
            for answer in self.ranked()
        ] or [{"answer": "(no answer)"}]


@dataclass(frozen=True)
class NoAnswer:
    """Takes the place of the answer for an input that cannot be read. error: why not."""

    error: str

    def record(self) -> dict[str, Any]:
        return {"error": self.error}

    def rows(self) -> list[Row]:
        return [{"error": self.error}]

    def cells(self) -> list[dict[str, str]]:
        return [{"error": self.error}]


TextAnswer: TypeAlias = ClassAnswer | LabelsAnswer | NumberAnswer | TagAnswer | SpanAnswer


def _listed(probabilities: Sequence[NameAndProbability]) -> str:
    return ", ".join(f"{name} {probability:.1%}" for name, probability in probabilities)


def _without(record: Row, field: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != field}
