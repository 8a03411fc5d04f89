"""The result of an evaluation in words: shares in percent, correlations as numbers, nothing twice."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchword.recipes.evaluation import Evaluation, TextEvaluation

_MOST = 32  # lines of classes


def result_lines(found: "Evaluation") -> Sequence[str]:
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
    told = [f"{part} Loss: {found.judged.loss:.4f}"]
    if scores is not None:
        told = [line.replace("Test", part, 1) for line in scores.lines()]
    if len(told) > _MOST:
        told = [*told[: _MOST - 2], f"... (all {len(told) - 2} classes are in the report)", told[-1]]
    for name, value in found.judged.measures.items():
        if name == "accuracy" and scores is not None:
            continue  # told above, overall and of each class
        told.append(_line(part, name, value, scores.classes[1] if name == "f1" and scores is not None else ""))
    told += found.compression.lines() if found.compression else []
    if found.part == "validation":
        told.append("(the best epoch was chosen on these same texts; give test=FILE for others)")
    return told


def _line(part: str, measure: str, value: float, of: str = "") -> str:
    """of: the class that a measure is about, such as F1 of two classes"""
    from patchword.reports.plots.numbers import measured, named

    name = named(measure).replace("_", " ")
    return f"{part} {name[0].upper()}{name[1:]}{f' of class {of}' if of else ''}: {measured(measure, value)}"
