"""Sections of a detection report: the AP table, precision-recall curves, classes and confusion."""

from collections.abc import Sequence

import numpy as np
import torch

from patchword.objectives.metrics.detection.average_precision import RECALLS, UNDEFINED, AveragePrecision
from patchword.objectives.metrics.detection.errors import DetectionErrors
from patchword.reports.detection.colors import class_color
from patchword.reports.plots import figures, page
from patchword.reports.plots.detection_figures import PrecisionRecall, precision_recall
from patchword.reports.plots.numbers import counted

NOTHING = "no object"
"""The row of false boxes and the column of missed objects in a confusion matrix."""
_NUMBERED = f" Classes are numbered from 0 in the order of the table of all classes; {{last}} is <b>{NOTHING}</b>."

_AP_COLUMNS = {
    "AP": "AP",
    "AP50": "AP50",
    "AP75": "AP75",
    "AP small": "small",
    "AP medium": "medium",
    "AP large": "large",
    "AR 100": "AR",
}
_LISTED, _WORST, _PAIRS, _SMALL = 30, 10, 6, 6


def percentage(value: float) -> str:
    """Return e.g. 41.2, as the field prints AP; a dash if it is undefined."""
    return "\N{EN DASH}" if value == UNDEFINED else f"{100 * value:.1f}"


def ap_section(boxes: AveragePrecision, masks: AveragePrecision | None) -> str:
    """Return the table with COCO's numbers of boxes and masks."""
    results = [("boxes", boxes), *([("masks", masks)] if masks is not None else [])]
    rows = [
        page.row(name, *(percentage(value) for key, value in result.summary().items() if key in _AP_COLUMNS))
        for name, result in results
    ]
    note = (
        "COCO's definition, in percent. AP is the mean over the classes and over the IoU thresholds 0.5 to 0.95, AP50 "
        "and AP75 are at one threshold. Small objects have an area of up to 32 x 32 pixels, large ones of at least "
        "96 x 96. AR is the recall with at most 100 detections per image and class. A dash: there is no such object."
    )
    table = page.table("Average precision on the test images", ("", *_AP_COLUMNS.values()), rows, kind="precision")
    return page.section("Average precision", table + page.paragraph(note, "note"))


def curves_section(boxes: AveragePrecision, classes: Sequence[str]) -> str:
    """Draw precision over recall at the IoU thresholds 0.5 and 0.75."""
    known = [label for label in range(len(classes)) if boxes.ap(label=label) != UNDEFINED]
    if not known:
        return ""
    panels = [_panel(boxes, classes, known, threshold) for threshold in (0.5, 0.75)]
    alternative = "Precision over recall, mean of the classes: " + ", ".join(
        f"AP {percentage(panel.ap)} at IoU {panel.threshold:g}" for panel in panels
    )
    about = "Precision of the boxes at each recall: the largest precision at this recall or a higher one, as in COCO."
    drawn = page.figure(page.embedded("svg+xml", precision_recall(RECALLS, panels)), alternative, kind="card")
    return page.section("Precision and recall", page.paragraph(about) + drawn)


def _panel(boxes: AveragePrecision, classes: Sequence[str], known: Sequence[int], threshold: float) -> PrecisionRecall:
    curves = [boxes.curve(label, threshold) for label in known]
    names, colors = [classes[label] for label in known], ["#{:02x}{:02x}{:02x}".format(*class_color(k)) for k in known]
    return PrecisionRecall(threshold, curves, names, colors, np.mean(curves, axis=0), boxes.ap(threshold=threshold))


def class_section(
    boxes: AveragePrecision, masks: AveragePrecision | None, classes: Sequence[str], errors: DetectionErrors
) -> str:
    """Return the table with the AP of each class, and how many of its objects were found."""
    values = boxes.per_class()
    head = ("class", "box AP", "AP50", "AP75", *(("mask AP",) if masks is not None else ()))
    head = (*head, "objects", "found", "missed", "false boxes")
    present = [label for label in range(len(classes)) if values[label] != UNDEFINED]
    lowest = min((float(values[label]) for label in present), default=UNDEFINED)
    marked = any(values[label] > lowest for label in present)

    def row(label: int) -> str:
        counts = errors.confusion
        worst = marked and float(values[label]) == lowest
        color = "#{:02x}{:02x}{:02x}".format(*class_color(label))
        swatch = f'<span class="swatch" style="background:{color}"></span>'
        name = f"{swatch}{page.escape(classes[label])}" + (' <span class="mark">lowest</span>' if worst else "")
        bar = f'<span class="bar"><i style="width:{max(0.0, 100 * values[label]):.1f}%"></i></span>'
        numbers = [percentage(boxes.ap(threshold=threshold, label=label)) for threshold in (0.5, 0.75)]
        numbers += [percentage(masks.ap(label=label))] if masks is not None else []
        objects, right = int(counts[label].sum()), int(counts[label, label])
        parts = (objects, right, int(counts[label, -1]), int(counts[-1, label]))
        cells = [f"{bar} {percentage(float(values[label]))}", *numbers, *(f"{part:,}" for part in parts)]
        return page.row(name, *cells, kind="worst" if worst else "")

    note = (
        f"Found, missed and false count boxes with a score of at least {errors.threshold:.2f} at IoU 0.5. "
        "All other objects were predicted as another class."
    )
    whole = page.table("Average precision per class", head, map(row, range(len(classes))), kind="classes detected")
    if len(classes) > _LISTED:
        worst = sorted(present, key=lambda label: float(values[label]))[:_WORST]
        short = page.table(
            f"The {len(worst)} classes with the lowest box AP", head, map(row, worst), kind="classes detected"
        )
        whole = short + page.folded(f"All {len(classes):,} classes", whole)
    return page.section("Classes", whole + page.paragraph(note, "note"))


def confusion_section(errors: DetectionErrors, classes: Sequence[str]) -> str:
    """Return the section with the confusion matrix, whose last row and column mean that there is no object."""
    counts, names = errors.confusion, (*classes, NOTHING)
    right, objects = int(np.trace(counts)), int(counts[:-1].sum())
    false = int(counts[-1].sum())
    alternative = f"Confusion matrix of {counted(len(classes), 'class')}: {right:,} of {objects:,} objects are on the "
    alternative += f"diagonal, which is correct; {false:,} boxes are false."
    html = page.paragraph(
        "A row is the true class of the objects, a column the predicted class. Correct predictions are on the "
        f"diagonal. Objects in the last column (<b>{NOTHING}</b>) were missed; boxes in the last row are false: there "
        f"is no object. Counted are boxes with a score of at least {errors.threshold:.2f}, the threshold with the best "
        "F1, and an IoU of at least 0.5. The colour follows the square root of the fraction of the row."
        + (_NUMBERED.format(last=len(classes)) if len(names) > figures.WITH_NAMES else "")
    )
    kind = "card matrix large" if len(names) > _SMALL else "card matrix"
    svg = figures.confusion(torch.from_numpy(counts), names, "object")
    drawn = page.figure(page.embedded("svg+xml", svg), alternative, kind=kind)
    listed = f"<div><h3>Most frequent errors</h3>\n{page.bullets(frequent_errors(counts, classes))}</div>\n"
    return page.section("Confusion", html + f'<div class="beside">\n{drawn}{listed}</div>\n')


def frequent_errors(counts: np.ndarray, classes: Sequence[str]) -> list[str]:
    """Return sentences on the most frequent errors, as HTML."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_PAIRS]
    cells = [divmod(int(place), len(wrong)) for place in order if wrong.flat[place]]
    return [_sentence(counts, classes, *cell) for cell in cells] or ["No object was missed, and no box is false."]


def _sentence(counts: np.ndarray, classes: Sequence[str], true: int, predicted: int) -> str:
    number, nothing = int(counts[true, predicted]), len(classes)
    one, other = (f"<b>{page.escape(classes[label])}</b>" if label < nothing else "" for label in (true, predicted))
    if true == nothing:
        return f"{counted(number, 'false box' if number == 1 else 'false boxe')} of {other}."
    fraction = f"{100 * number / int(counts[true].sum()):.1f}% of its objects"
    if predicted == nothing:
        return f"{one} was missed {counted(number, 'time')} ({fraction})."
    return f"{one} was predicted as {other} {counted(number, 'time')} ({fraction})."
