"""Missed objects, false boxes and confused classes, worked by hand and compared with average precision."""

import numpy as np
import pytest

from patchword.core.errors import UserError
from patchword.objectives.metrics.detection.average_precision import average_precision
from patchword.objectives.metrics.detection.errors import best_threshold, find_errors
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from support.coco.detections import random_case

A, B, C = [0, 0, 10, 10], [20, 0, 30, 10], [0, 20, 10, 30]
NEAR_A = [1, 0, 10, 10]  # IoU 0.9 with A


def objects(*pairs, crowd=()):
    boxes, labels = [box for box, _ in pairs], [label for _, label in pairs]
    flags = [index in crowd for index in range(len(pairs))]
    return ImageObjects(np.array(boxes), np.array(labels, dtype=int), np.full(len(pairs), 100.0), np.array(flags, bool))


def detections(*triples):
    boxes, labels, scores = ([one[place] for one in triples] for place in range(3))
    return ImageDetections(np.array(boxes), np.array(labels, dtype=int), np.array(scores, dtype=float))


def test_a_found_a_confused_a_missed_object_and_a_false_box():
    truth = [objects((A, 0), (B, 1), (C, 1)), objects()]
    found = [detections((A, 0, 0.9), (B, 0, 0.8)), detections((C, 1, 0.5), (A, 1, 0.2))]
    errors = find_errors(truth, found, 2)
    assert errors.confusion.tolist() == [[1, 0, 0], [1, 0, 1], [0, 1, 0]]
    assert errors.per_image.tolist() == [[1, 0, 1], [0, 1, 0]]
    assert errors.worst(5) == [0, 1]
    assert errors.worst(1) == [0]
    assert errors.missed.tolist() == [False, False, True]
    assert errors.false.tolist() == [False, False, True, False]
    assert errors.confused.tolist() == [False, True, False, False]
    assert errors.of_image(1) == (slice(3, 3), slice(2, 4))


def test_an_own_class_comes_before_a_higher_score():
    errors = find_errors([objects((A, 0))], [detections((A, 1, 0.9), (NEAR_A, 0, 0.4))], 2)
    assert errors.confusion.tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_of_one_class_the_higher_score_takes_the_object():
    """As in COCO: the IoU decides between objects, not between detections."""
    errors = find_errors([objects((A, 0))], [detections((A, 0, 0.4), (NEAR_A, 0, 0.9))], 1)
    assert errors.object_match.tolist() == [1]
    assert errors.confusion.tolist() == [[1, 0], [1, 0]]


def test_a_detection_takes_the_object_with_the_largest_iou():
    close = [2, 0, 10, 10]
    errors = find_errors([objects((close, 0), (A, 0))], [detections((A, 0, 0.9), (close, 0, 0.8))], 1)
    assert errors.object_match.tolist() == [1, 0]


@pytest.mark.parametrize(("iou_side", "is_found"), [(5.0, True), (4.9, False)])
def test_the_iou_is_at_least_a_half(iou_side, is_found):
    errors = find_errors([objects((A, 0))], [detections(([0, 0, 10, iou_side], 0, 0.9))], 1)
    assert errors.missed.any() == (not is_found)


def test_crowds_are_no_objects_and_excuse_detections_of_their_class():
    truth = [objects((A, 0), crowd=[0])]
    found = [detections(([0, 0, 5, 5], 0, 0.9), ([0, 0, 5, 5], 1, 0.9))]
    assert find_errors(truth, found, 2).confusion.tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_images_without_errors_are_not_among_the_worst():
    truth, found = [objects((A, 0)), objects((A, 0))], [detections((A, 0, 0.9)), detections()]
    assert find_errors(truth, found, 1).worst(5) == [1]
    assert find_errors(truth, found, 1, threshold=0.95).worst(5) == [0, 1]


def one_by_one(truth, found, threshold):
    """The definition as a loop: the number of objects taken by their own class, by another class, and by none."""
    own = other = 0
    for there, given in zip(truth, found, strict=True):
        free = [index for index in range(len(there.labels)) if not there.crowd[index]]
        order = [index for index in np.argsort(-given.scores, kind="stable") if given.scores[index] >= threshold]
        for same in (True, False):
            for detection in list(order):
                best, chosen = 0.5, None
                for item in free:
                    low = np.maximum(there.boxes[item, :2], given.boxes[detection, :2])
                    high = np.minimum(there.boxes[item, 2:], given.boxes[detection, 2:])
                    shared = (high - low).clip(0).prod()
                    areas = [(box[2:] - box[:2]).prod() for box in (there.boxes[item], given.boxes[detection])]
                    iou = shared / (sum(areas) - shared)
                    if (there.labels[item] == given.labels[detection]) == same and iou >= best:
                        best, chosen = iou, item
                if chosen is not None:
                    free.remove(chosen)
                    order.remove(detection)
                    own, other = own + same, other + (not same)
    return own, other


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_rounds_equal_a_loop_over_detections(seed, threshold):
    truth, found = random_case(seed)
    counts = find_errors(truth, found, 5, threshold).confusion
    own = int(np.diag(counts)[:-1].sum())
    assert (own, int(counts[:-1, :-1].sum()) - own) == one_by_one(truth, found, threshold)
    assert counts[:-1].sum() == sum((~one.crowd).sum() for one in truth)


@pytest.mark.parametrize("seed", range(4))
def test_the_diagonal_has_the_recall_of_average_precision(seed):
    truth, found = random_case(seed)
    recall = average_precision(truth, found, 5).recall[0, :4, 0, -1]
    counts = find_errors(truth, found, 5, threshold=0.0).confusion[:4]
    np.testing.assert_allclose(np.diag(counts) / counts.sum(axis=1), recall)


def test_the_best_threshold_has_the_best_f1():
    """Scores 0.9 correct, 0.8 false, 0.7 correct, 0.6 false, two objects: F1 = 2 * 2 / (3 + 2) at 0.7."""
    truth = [objects((A, 0), (B, 0))]
    found = [detections((A, 0, 0.9), (C, 0, 0.8), (B, 0, 0.7), (C, 0, 0.6))]
    assert best_threshold(truth, found, 1) == (0.7, 0.8)
    assert best_threshold(truth, [detections((C, 0, 0.9))], 1) == (0.3, 0.0)


def test_detections_of_one_score_are_kept_together():
    """Only the first of both would have an F1 of 1."""
    assert best_threshold([objects((A, 0))], [detections((A, 0, 0.5), (C, 0, 0.5))], 1) == (0.5, pytest.approx(2 / 3))


def test_wrong_labels_and_numbers_of_images_are_refused():
    with pytest.raises(UserError, match="unknown label"):
        find_errors([objects((A, 2))], [detections()], 2)
    with pytest.raises(UserError, match="different images"):
        find_errors([objects()], [], 2)
