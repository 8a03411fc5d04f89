"""Which objects a detector found, missed or confused with another class, and which of its boxes are false.

Only detections with at least a score threshold count. In each image, detections take objects in the order of their
scores. A detection takes the free object with the largest IoU of at least 0.5: first all detections take objects of
their own class, by COCO's rule, then the remaining ones take objects of other classes. An object that is not taken is
missed, a detection that takes none is false. Crowds are no objects here, and a detection that lies to at least 0.5 of
its area in a crowd of its class does not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.objectives.metrics.detection.matching import Candidates, Flags, find_candidates, match
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from patchword.objectives.metrics.detection.tables import Boxes, Objects, Ranked, detections_table, objects_table

Indices = NDArray[np.int64]

NONE = -1
"""The index of a missing partner: of a missed object, or of a false detection."""


@dataclass(frozen=True, eq=False)
class DetectionErrors:
    """The matched detections and objects of all images, one image after the other.

    threshold: the lowest score of a counted detection. classes: number of classes. images: number of images.
    object_image, object_label: (objects,); crowd: (objects,), True for crowds, which are not counted.
    object_match: (objects,), index of the detection that took the object, or `NONE`.
    detection_image, detection_label: (detections,); counted: (detections,), False below the threshold and in crowds.
    detection_match: (detections,), index of its object, or `NONE`.
    """

    threshold: float
    classes: int
    images: int
    object_image: Indices
    object_label: Indices
    crowd: Flags
    object_match: Indices
    detection_image: Indices
    detection_label: Indices
    counted: Flags
    detection_match: Indices

    @cached_property
    def confusion(self) -> Indices:
        """Counts (classes + 1, classes + 1): true class by predicted class.

        The last column has the missed objects of each class, the last row the false detections of each class.
        """
        side = self.classes + 1
        predicted = np.append(self.detection_label, self.classes)[self.object_match]
        cells = (self.object_label * side + predicted)[~self.crowd]
        false = self.classes * side + self.detection_label[self.false]
        return np.bincount(np.concatenate((cells, false)), minlength=side * side).reshape(side, side)

    @property
    def missed(self) -> Flags:
        """Objects that no detection took."""
        missed: Flags = (self.object_match == NONE) & ~self.crowd
        return missed

    @property
    def false(self) -> Flags:
        """Counted detections without an object."""
        false: Flags = (self.detection_match == NONE) & self.counted
        return false

    @property
    def confused(self) -> Flags:
        """Detections of an object of another class."""
        true = np.append(self.object_label, NONE)[self.detection_match]
        confused: Flags = (self.detection_match != NONE) & (true != self.detection_label)
        return confused

    @cached_property
    def per_image(self) -> Indices:
        """Numbers (images, 3) of missed objects, false detections and confused classes."""
        parts = (
            self.object_image[self.missed],
            self.detection_image[self.false],
            self.detection_image[self.confused],
        )
        return np.stack([np.bincount(part, minlength=self.images) for part in parts], axis=1)

    def worst(self, most: int) -> list[int]:
        """Return the images with the most errors, at most `most`, the worst first; images without errors are left out.

        Of equal ones, the image with fewer objects comes first.
        """
        errors = self.per_image.sum(axis=1)
        objects = np.bincount(self.object_image[~self.crowd], minlength=self.images)
        order = np.lexsort((objects, -errors))
        return [int(image) for image in order[: max(most, 0)] if errors[image]]

    def of_image(self, image: int) -> tuple[slice, slice]:
        """Return the places of the objects and of the detections of one image."""
        objects = np.searchsorted(self.object_image, [image, image + 1])
        detections = np.searchsorted(self.detection_image, [image, image + 1])
        return slice(int(objects[0]), int(objects[1])), slice(int(detections[0]), int(detections[1]))


def find_errors(
    truth: Sequence[ImageObjects], found: Sequence[ImageDetections], classes: int, threshold: float = 0.3
) -> DetectionErrors:
    """Match the boxes of detections with those of objects. truth, found: one per image, in the same order."""
    if not len(truth) or len(truth) != len(found):
        raise UserError("objects and detections are of different images", expected=len(truth) or "1", got=len(found))
    objects, object_label = _flat_objects(truth)
    detections, detection_label = _flat_detections(found)
    for labels in (object_label, detection_label):
        if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
            raise UserError("an unknown label", expected=f"0 to {classes - 1}", got=int(labels.max()))
    counted = detections.scores >= threshold
    pairs = find_candidates(detections, objects)
    same_class = detection_label[pairs.detection] == object_label[pairs.item]
    in_crowd = objects.crowd[pairs.item]
    usable = counted[pairs.detection] & ~in_crowd
    order = np.lexsort((-pairs.item, -pairs.iou, pairs.detection, -detections.scores[pairs.detection], ~same_class))
    chosen = _take_in_order(pairs, order[usable[order]])
    object_match = np.full(len(objects.group), NONE)
    detection_match = np.full(len(detections.group), NONE)
    object_match[pairs.item[chosen]] = pairs.detection[chosen]
    detection_match[pairs.detection[chosen]] = pairs.item[chosen]
    excused = pairs.detection[in_crowd & same_class]
    counted[excused[detection_match[excused] == NONE]] = False
    return DetectionErrors(
        threshold,
        classes,
        len(truth),
        objects.group,
        object_label,
        objects.crowd,
        object_match,
        detections.group,
        detection_label,
        counted,
        detection_match,
    )


def _take_in_order(pairs: Candidates, order: Indices) -> Indices:
    """Return the pairs that a loop over `order` takes, if each detection and each object is taken once.

    A pair is taken at once if it is the first one of its detection and of its object. Each round takes all such pairs
    of all images and removes those that share a detection or an object with them.
    """
    chosen = [order[:0]]
    while len(order):
        detection, item = pairs.detection[order], pairs.item[order]
        first = np.zeros((2, len(order)), dtype=bool)
        for place, values in enumerate((detection, item)):
            first[place, np.unique(values, return_index=True)[1]] = True
        taken = first.all(axis=0)
        chosen.append(order[taken])
        order = order[~(np.isin(detection, detection[taken]) | np.isin(item, item[taken]))]
    return np.concatenate(chosen)


def _flat_objects(images: Sequence[ImageObjects]) -> tuple[Objects, Indices]:
    """Return the objects in groups of one image, and their labels."""
    boxes = np.concatenate([one.boxes for one in images])
    group = np.repeat(np.arange(len(images)), [len(one.labels) for one in images])
    areas, crowd = (np.concatenate([getattr(one, name) for one in images]) for name in ("areas", "crowd"))
    regions = Boxes(boxes[:, :2], boxes[:, 2:] - boxes[:, :2])
    return Objects(group, regions, areas, crowd), np.concatenate([one.labels for one in images])


def _flat_detections(images: Sequence[ImageDetections]) -> tuple[Ranked, Indices]:
    boxes = np.concatenate([one.boxes for one in images])
    group = np.repeat(np.arange(len(images)), [len(one.labels) for one in images])
    regions = Boxes(boxes[:, :2], boxes[:, 2:] - boxes[:, :2])
    scores = np.concatenate([one.scores for one in images])
    return Ranked(group, regions, scores, np.zeros_like(group)), np.concatenate([one.labels for one in images])


def best_threshold(
    truth: Sequence[ImageObjects], found: Sequence[ImageDetections], classes: int
) -> tuple[float, float]:
    """Return the score threshold with the best F1 of boxes at IoU 0.5, all classes together, and this F1.

    F1 = 2 * correct / (detections + objects). Of equal ones, the highest threshold is returned. Without a correct
    detection the result is (0.3, 0.0).
    """
    objects, detections = objects_table(truth, classes, "boxes"), detections_table(found, classes, "boxes", 100)
    matches = match(detections, objects)
    kept = ~matches.ignored[:, 0, 0]
    order = np.argsort(-detections.scores[kept], kind="stable")
    scores, correct = detections.scores[kept][order], matches.matched[kept, 0, 0][order]
    if not correct.any():
        return 0.3, 0.0
    number = np.arange(1, len(scores) + 1)
    f1 = 2 * np.cumsum(correct) / (number + (~matches.ignored_objects[:, 0]).sum())
    f1[np.append(scores[1:] == scores[:-1], False)] = 0.0  # detections of one score are counted together
    best = int(f1.argmax())
    return float(scores[best]), float(f1[best])
