"""Objects and detections of one image as drawn objects: colours by class, errors dashed."""

from collections.abc import Sequence

from patchword.core.masks.run_lengths import RunLengths
from patchword.objectives.metrics.detection.errors import NONE, DetectionErrors
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from patchword.reports.detection.drawing import Box, DrawnObject

CROWDED = 15  # objects of an image; with more of them only errors have labels


def drawn_detections(found: ImageDetections, classes: Sequence[str], threshold: float = 0.0) -> list[DrawnObject]:
    """Return the detections with at least this score, best first, with class name and score."""
    order = [int(index) for index in (-found.scores).argsort(kind="stable") if found.scores[index] >= threshold]
    return [
        DrawnObject(_box(found, index), label, _scored(found, index, classes), _mask(found.masks, index))
        for index in order
        for label in (int(found.labels[index]),)
    ]


def drawn_truth(truth: ImageObjects, errors: DetectionErrors, image: int, classes: Sequence[str]) -> list[DrawnObject]:
    """Return the true objects of an image; missed ones are dashed, and so are crowds.

    Of more than `CROWDED` objects, only these have labels.
    """
    places, _ = errors.of_image(image)
    missed = errors.missed[places]
    drawn = []
    for index, label in enumerate(truth.labels.tolist()):
        text = classes[label] + (" (crowd)" if truth.crowd[index] else " (missed)" if missed[index] else "")
        is_dashed = bool(truth.crowd[index] or missed[index])
        text = text if is_dashed or len(truth.labels) <= CROWDED else ""
        drawn.append(DrawnObject(_box(truth, index), label, text, _mask(truth.masks, index), is_dashed))
    return drawn


def drawn_predictions(
    found: ImageDetections, errors: DetectionErrors, image: int, classes: Sequence[str]
) -> list[DrawnObject]:
    """Return the counted detections of an image, best first; false ones and those of a wrong class are dashed.

    Of more than `CROWDED` detections, only these have labels.
    """
    _, places = errors.of_image(image)
    counted, match, confused = errors.counted[places], errors.detection_match[places], errors.confused[places]
    drawn = []
    for index in (-found.scores).argsort(kind="stable").tolist():
        if not counted[index]:
            continue
        text = _scored(found, index, classes)
        if match[index] == NONE:
            text += " (false)"
        elif confused[index]:
            text += f" (is {classes[errors.object_label[match[index]]]})"
        is_wrong = bool(match[index] == NONE or confused[index])
        text = text if is_wrong or int(counted.sum()) <= CROWDED else ""
        label = int(found.labels[index])
        drawn.append(DrawnObject(_box(found, index), label, text, _mask(found.masks, index), is_wrong))
    return drawn


def _scored(found: ImageDetections, index: int, classes: Sequence[str]) -> str:
    return f"{classes[found.labels[index]]} {found.scores[index]:.2f}"


def _box(record: ImageObjects | ImageDetections, index: int) -> Box:
    x1, y1, x2, y2 = record.boxes[index].tolist()
    return x1, y1, x2, y2


def _mask(masks: Sequence[RunLengths] | None, index: int) -> RunLengths | None:
    return None if masks is None else masks[index]
