"""The measures of a classifier besides loss and accuracy, as lines of text."""

from collections.abc import Collection

from patchword.objectives.metrics.quality import Quality
from patchword.reports.plots.numbers import measured, named, percent


def quality_lines(part: str, quality: Quality, known: Collection[str] = ()) -> list[str]:
    """Return one line per measure. part: e.g. "Test". known: measures that other lines have."""
    left_out = {*known, "f1-weighted", "brier", "ece"}
    if abs(quality.classes.balanced_accuracy - quality.scores.accuracy) < 1e-9:
        left_out.add("balanced-accuracy")  # all classes have the same number of examples
    found = quality.measures()
    lines = [f"{part} {_title(name)}: {measured(name, value)}" for name, value in found.items() if name not in left_out]
    if quality.calibration:
        lines.append(f"{part} {_title('ece')}: {percent(quality.calibration.ece)}{_calibrated(quality)}")
    return [*lines, *_chosen(part, quality)]


def _title(measure: str) -> str:
    name = named(measure)
    return f"{name[0].upper()}{name[1:]}"


def _calibrated(quality: Quality) -> str:
    if quality.fitted is None or quality.calibrated is None:
        return ""
    if not quality.fitted.has_temperature:
        return f" (no temperature: the {quality.fitted.examples:,} validation examples do not determine one)"
    return f" ({percent(quality.calibrated.ece)} at temperature {quality.fitted.temperature:.3f})"


def _chosen(part: str, quality: Quality) -> list[str]:
    """Return the F1 of two classes at the threshold that is best on the validation examples."""
    if quality.binary is None or quality.fitted is None or quality.fitted.threshold is None:
        return []
    best, half = quality.binary.at(quality.fitted.threshold), quality.binary.at(0.5)
    label = quality.scores.classes[1]
    text = f"{part} F1 of class {label} at threshold {best['threshold']:.3f}: {percent(best['f1'])}"
    return [f"{text} ({percent(half['f1'])} at 0.5)"]
