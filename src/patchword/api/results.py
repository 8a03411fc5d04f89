"""The result of an evaluation, as typed fields."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchword.api.tables import format_cell, html_fields


@dataclass(frozen=True)
class EvaluationResult:
    """The result of a run on its test set.

    kind: the recipe kind. part: the evaluated data split: "test", or "validation" or "held out" if there is no test
    set. metric: the name of the main score, e.g. "accuracy"; score: its value. scores: all scores by name.
    examples: how many were evaluated, if it is known. classes, confusion: of a classifier; rows of the confusion
    matrix are true classes, columns are predictions.
    """

    kind: str
    part: str
    metric: str
    score: float
    scores: Mapping[str, float]
    examples: int | None = None
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = field(default=(), repr=False)

    @property
    def loss(self) -> float | None:
        """The mean loss, if it is known."""
        return self.scores.get("loss")

    @property
    def class_accuracy(self) -> dict[str, float]:
        """The accuracy per class, for classes with examples."""
        rows = zip(self.classes, self.confusion, strict=True) if self.confusion else ()
        return {name: row[number] / sum(row) for number, (name, row) in enumerate(rows) if sum(row)}

    def _repr_html_(self) -> str:
        numbers = {name: format_cell(value) for name, value in self.scores.items()}
        return html_fields({"evaluated on": self.part, **numbers})


def result_of(kind: str, summary: Mapping[str, Any]) -> EvaluationResult:
    """Return the result with the content of evaluation.json. kind: the recipe kind"""
    metric = str(summary.get("metric", "accuracy"))
    return EvaluationResult(
        kind=kind,
        part=str(summary.get("part", "test")),
        metric=metric,
        score=float(summary.get(metric, math.nan)),
        scores={name: value for name, value in summary.items() if isinstance(value, float)},
        examples=summary.get("examples"),
        classes=tuple(summary.get("classes", ())),
        confusion=tuple(tuple(row) for row in summary.get("confusion", ())),
    )
