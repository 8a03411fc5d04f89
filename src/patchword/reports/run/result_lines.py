"""The result of an evaluation as lines of text: fractions in percent, correlations as numbers, nothing repeated."""

from collections.abc import Sequence

from patchword.recipes.elmo.evaluation import ElmoEvaluation
from patchword.recipes.image.evaluation import ImageEvaluation
from patchword.recipes.pretraining.evaluation import PretrainingEvaluation
from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.vectors.evaluation import VectorsEvaluation
from patchword.reports.plots.numbers import measured, named
from patchword.reports.run.quality_lines import quality_lines

_MOST = 32  # lines of classes


def image_lines(found: ImageEvaluation) -> Sequence[str]:
    return [*found.lines(), *quality_lines("Test", found.quality)]


def text_lines(found: TextEvaluation) -> Sequence[str]:
    part, scores = found.part.capitalize(), found.scores
    lines = [f"{part} Loss: {found.judged.loss:.4f}"]
    if scores is not None:
        lines = [line.replace("Test", part, 1) for line in scores.lines()]
    if len(lines) > _MOST:
        lines = [*lines[: _MOST - 2], f"... (all {len(lines) - 2} classes are in the report)", lines[-1]]
    for name, value in found.judged.measures.items():
        if name == "accuracy" and scores is not None:
            continue  # the lines above have it, for all texts and per class
        lines.append(_line(part, name, value, scores.classes[1] if name == "f1" and scores is not None else ""))
    lines += quality_lines(part, found.quality, found.judged.measures) if found.quality else []
    lines += found.compression.lines() if found.compression else []
    if found.part == "validation":
        lines.append(f"({found.chosen_here} on these same texts; set test=FILE for an independent test)")
    return [*found.skipped, *lines]


def held_out_lines(found: PretrainingEvaluation | ElmoEvaluation) -> Sequence[str]:
    return [_line("Held-out", name, value) for name, value in found.measures.items()]


def vectors_lines(found: VectorsEvaluation) -> Sequence[str]:
    measures = found.judged.measures.items()
    return [*(_line(found.part.capitalize(), name, value) for name, value in measures), *found.notes()]


def _line(part: str, measure: str, value: float, of: str = "") -> str:
    """Return one line of the result. of: the class that the measure is about, such as the F1 of one of two classes."""
    name = named(measure).replace("_", " ")
    return f"{part} {name[0].upper()}{name[1:]}{f' of class {of}' if of else ''}: {measured(measure, value)}"
