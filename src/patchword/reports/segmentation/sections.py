"""Sections of a segmentation report: scores, IoU per class, confused classes, and the worst images."""

import io
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from patchword.objectives.metrics.segmentation.confusion import SegmentationScores
from patchword.reports.detection.colors import Color
from patchword.reports.detection.images import to_image
from patchword.reports.plots import figures, page
from patchword.reports.plots.numbers import counted
from patchword.reports.segmentation.overlay import draw_labels, draw_panels, with_legend

_WORST = 6
_SMALLEST, _LARGEST = 320, 480  # pixels of the longer side of one panel
_QUALITY = 85  # of JPEG, which keeps a report of photos small
_LISTED, _LOWEST, _PAIRS, _SMALL = 30, 10, 6, 6
_DASH = "\N{EN DASH}"


class Segmented(Protocol):
    """The images of an evaluation. right, labelled: (images,), correct and labelled pixels of each."""

    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def names(self) -> tuple[str, ...]: ...

    def image(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return pixels (channels, height, width), true and predicted labels (height, width), uint8."""
        ...


def percentage(value: float) -> str:
    """Return e.g. 41.2, as the field prints IoU; a dash if it is undefined."""
    return _DASH if math.isnan(value) else f"{100 * value:.1f}"


def class_section(scores: SegmentationScores, classes: Sequence[str], colors: Sequence[Color]) -> str:
    """Return the table with the IoU of each class as a bar, the accuracy, and the share of the pixels."""
    head = ("class", "IoU", "accuracy", "share of the pixels")
    present = [label for label, iou in enumerate(scores.iou) if not math.isnan(iou)]
    lowest = min((scores.iou[label] for label in present), default=math.nan)
    is_marked = len(present) > 1 and scores.iou.count(lowest) == 1
    total = max(1, sum(scores.pixels))

    def row(label: int) -> str:
        iou = scores.iou[label]
        worst = is_marked and iou == lowest
        swatch = f'<span class="swatch" style="background:#{bytes(colors[label]).hex()}"></span>'
        name = f"{swatch}{page.escape(classes[label])}" + (' <span class="mark">lowest</span>' if worst else "")
        length = 0.0 if math.isnan(iou) else 100 * iou
        bar = f'<span class="bar"><i style="width:{length:.1f}%"></i></span>'
        share = f"{100 * scores.pixels[label] / total:.2f}%"
        cells = (f"{bar} {percentage(iou)}", percentage(scores.accuracy[label]), share)
        return page.row(name, *cells, kind="worst" if worst else "")

    note = (
        "IoU: pixels that are correctly of the class, divided by the pixels that are of the class or predicted as it. "
        "Accuracy: the fraction of the pixels of the class that are correct. In percent. A dash: no such pixels."
    )
    whole = page.table("IoU per class", head, map(row, range(len(classes))), kind="classes detected")
    if len(classes) > _LISTED:
        low = sorted(present, key=lambda label: scores.iou[label])[:_LOWEST]
        short = page.table(f"The {len(low)} classes with the lowest IoU", head, map(row, low), kind="classes detected")
        whole = short + page.folded(f"All {len(classes):,} classes", whole)
    return page.section("Classes", whole + page.paragraph(note, "note"))


def confusion_section(confusion: Tensor, classes: Sequence[str]) -> str:
    """Return the section with the confusion matrix in thousandths of the pixels of the true class."""
    pixels = confusion.double()
    thousandths = (1000 * pixels / pixels.sum(1, keepdim=True).clamp(min=1)).round().long()
    right, total = int(confusion.trace()), int(confusion.sum())
    alternative = f"Confusion matrix of {counted(len(classes), 'class')}: {right:,} of {total:,} pixels are on the "
    alternative += "diagonal, which is correct."
    text = (
        "A row is the true class of the pixels, a column the predicted class. The numbers are thousandths of the "
        "pixels of the row; those on the diagonal are correct. The colour follows the square root of the fraction."
    )
    if len(classes) > figures.WITH_NAMES:
        text += " Classes are numbered from 0 in the order of the table of all classes."
    kind = "card matrix large" if len(classes) > _SMALL else "card matrix"
    svg = figures.confusion(thousandths, classes, "pixel")
    drawn = page.figure(page.embedded("svg+xml", svg), alternative, kind=kind)
    errors = page.bullets(frequent_errors(confusion, classes))
    listed = f"<div><h3>Most frequent errors</h3>\n{errors}</div>\n"
    return page.section("Confusion", page.paragraph(text) + f'<div class="beside">\n{drawn}{listed}</div>\n')


def frequent_errors(confusion: Tensor, classes: Sequence[str]) -> list[str]:
    """Return sentences on the pairs of classes with the most wrong pixels, as HTML."""
    wrong = confusion.clone()
    wrong.fill_diagonal_(0)
    total = max(1, int(confusion.sum()))
    order = torch.argsort(wrong.reshape(-1), descending=True, stable=True)[:_PAIRS].tolist()
    cells = [divmod(place, len(classes)) for place in order if wrong.reshape(-1)[place]]
    return [
        f"<b>{page.escape(classes[true])}</b> was predicted as <b>{page.escape(classes[predicted])}</b> in "
        f"{100 * int(wrong[true, predicted]) / int(confusion[true].sum()):.1f}% of its pixels "
        f"({100 * int(wrong[true, predicted]) / total:.2f}% of all)."
        for true, predicted in cells
    ] or ["Every pixel is correct."]


def worst_section(found: Segmented, right: Tensor, labelled: Tensor, colors: Sequence[Color]) -> str:
    """Return the section with the images that have the smallest fraction of correct pixels."""
    accuracy = torch.where(labelled > 0, right / labelled.clamp(min=1), 1.0)
    order = [index for index in torch.argsort(accuracy, stable=True).tolist() if accuracy[index] < 1][:_WORST]
    if not order:
        return page.section("Worst images", page.paragraph("None: every labelled pixel is correct."))
    about = f"The {counted(len(order), 'test image')} with the smallest fraction of correct pixels: image, truth and "
    about += "prediction. Pixels without a label have no colour in the truth and are not counted."
    shown = "".join(_figure(found, index, float(accuracy[index]), colors) for index in order)
    return page.section("Worst images", page.paragraph(about) + shown)


def _figure(found: Segmented, index: int, accuracy: float, colors: Sequence[Color]) -> str:
    pixels, truth, predicted = (one.numpy() for one in found.image(index))
    image = to_image(torch.from_numpy(pixels))
    nothing = np.full(truth.shape, 255, dtype=np.uint8)
    maps = (("image", nothing), ("truth", truth), ("prediction", predicted))
    panels = [(title, draw_labels(image, labels, colors, _SMALLEST, _LARGEST)) for title, labels in maps]
    drawn = with_legend(draw_panels(panels), [truth, predicted], found.classes, colors)
    name = found.names[index].replace("\\", "/").rpartition("/")[2]
    buffer = io.BytesIO()
    drawn.save(buffer, "JPEG", quality=_QUALITY)
    summary = f"{100 * accuracy:.1f}% of the labelled pixels are correct"
    alternative = f"{name}: image, truth and prediction; {summary}"
    caption = f"<b>{page.escape(name)}</b>: {summary}"
    return page.figure(page.embedded("jpeg", buffer.getvalue()), alternative, caption, "detections")
