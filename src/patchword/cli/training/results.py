"""Formats the result of an evaluation: fractions in percent, correlations as numbers, no value twice."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchword.recipes.evaluation import Evaluation, TextEvaluation

_MOST = 32  # lines of per-class results


def result_lines(found: "Evaluation") -> Sequence[str]:
    """Return the lines to print for an evaluation."""
    from patchword.recipes.elmo.evaluation import ElmoEvaluation
    from patchword.recipes.evaluation import PretrainingEvaluation, TextEvaluation
    from patchword.recipes.vectors.evaluation import VectorsEvaluation

    match found:
        case TextEvaluation():
            return _texts(found)
        case PretrainingEvaluation() | ElmoEvaluation():
            return [_line("Held-out", name, value) for name, value in found.measures.items()]
        case VectorsEvaluation():
            measures = found.judged.measures.items()
            return [*(_line(found.part.capitalize(), name, value) for name, value in measures), *found.notes()]
    return found.lines()


def _texts(found: "TextEvaluation") -> list[str]:
    part, scores = found.part.capitalize(), found.scores
    lines = [f"{part} Loss: {found.judged.loss:.4f}"]
    if scores is not None:
        lines = [line.replace("Test", part, 1) for line in scores.lines()]
    if len(lines) > _MOST:
        lines = [*lines[: _MOST - 2], f"... (the report has all {len(lines) - 2} classes)", lines[-1]]
    for name, value in found.judged.measures.items():
        if name == "accuracy" and scores is not None:
            continue  # printed above, overall and per class
        lines.append(_line(part, name, value, scores.classes[1] if name == "f1" and scores is not None else ""))
    lines += found.compression.lines() if found.compression else []
    if found.part == "validation":
        lines.append("(the best epoch was chosen on these same texts; set test=FILE for an independent test)")
    return lines


def _line(part: str, measure: str, value: float, of: str = "") -> str:
    """of: the class that a measure is about, such as the F1 of a two-class task."""
    from patchword.reports.plots.numbers import measured, named

    name = named(measure).replace("_", " ")
    return f"{part} {name[0].upper()}{name[1:]}{f' of class {of}' if of else ''}: {measured(measure, value)}"
