"""COCO's average precision, held equal to pycocotools to the last bit."""

from dataclasses import replace

import numpy as np
import pytest

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths
from patchword.objectives.metrics.detection.average_precision import RECALLS, average_precision
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from support.coco.detections import evaluated_by_coco, random_case


def check(truth, found, classes, masks=False):
    ours = average_precision(truth, found, classes, "masks" if masks else "boxes")
    theirs = evaluated_by_coco(truth, found, classes, masks)
    assert np.array_equal(ours.precision, theirs.eval["precision"][..., -1])
    assert np.array_equal(ours.recall, theirs.eval["recall"])
    assert list(ours.summary().values()) == theirs.stats.tolist()
    return ours


@pytest.mark.parametrize("seed", range(12))
def test_boxes_equal_pycocotools(seed):
    ours = check(*random_case(seed), classes=5)
    assert 0.05 < ours.ap() < 0.95


@pytest.mark.parametrize("seed", range(4))
def test_masks_equal_pycocotools(seed):
    ours = check(*random_case(seed, masks=True), classes=5, masks=True)
    assert 0.05 < ours.ap() < 0.95


@pytest.mark.parametrize("masks", [False, True])
def test_many_detections_of_one_class_equal_pycocotools(masks):
    """More than 100 detections per image and class, many candidates per object."""
    truth, found = random_case(3, images=5, classes=2, most=6, per_object=30, extra=220, masks=masks)
    assert max(len(one.labels[one.labels == 0]) for one in found) > 100
    check(truth, found, 2, masks)


@pytest.mark.parametrize("seed", range(6))
def test_fractions_equal_pycocotools(seed):
    rng = np.random.default_rng(seed)
    truth, found = random_case(seed, images=8)
    truth = [replace(one, boxes=one.boxes + rng.random(one.boxes.shape)) for one in truth]
    found = [
        replace(one, boxes=one.boxes + rng.random(one.boxes.shape), scores=rng.random(len(one.labels))) for one in found
    ]
    check(truth, found, 5)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_of_equal_ious_the_last_object_is_taken(order):
    """The first detection overlaps both objects alike; the second detection matches well only if object 0 is free."""
    boxes = np.array([[0.0, 0, 30, 10], [10, 0, 40, 10]])[order]
    truth = [ImageObjects(boxes, np.zeros(2), np.full(2, 300), np.zeros(2))]
    guesses = np.array([[5.0, 0, 35, 10], [0, 0, 30, 10]])
    found = [ImageDetections(guesses, np.zeros(2), np.array([0.9, 0.8]))]
    scores = check(truth, found, 1)
    assert scores.recall[4, 0, 0, 2] == (1.0 if order == [0, 1] else 0.5)  # IoU 0.7


def test_equal_boxes_of_several_objects_equal_pycocotools():
    """Of equal IoU the last object is taken; crowds and areas at the limits of a range are among them."""
    box = np.array([[10.0, 10, 42, 42]])
    crowd = np.array([False, True, False, True, False])
    truth = [ImageObjects(np.repeat(box, 5, 0), np.zeros(5), np.array([1024, 1024, 9216, 50, 1025]), crowd)] * 2
    found = [ImageDetections(np.repeat(box, 7, 0), np.zeros(7), np.array([0.5, 0.5, 0.7, 0.5, 0.2, 0.2, 0.9]))] * 2
    check(truth, found, 1)


def test_no_objects_and_no_detections():
    truth, found = random_case(0)
    empty = [replace(one, boxes=one.boxes[:0], labels=one.labels[:0], scores=one.scores[:0]) for one in found]
    assert set(average_precision(truth, empty, 5).summary().values()) == {0.0}
    nothing = [ImageObjects(np.zeros((0, 4)), np.zeros(0), np.zeros(0), np.zeros(0)) for _ in truth]
    assert set(average_precision(nothing, found, 5).summary().values()) == {-1.0}
    assert set(check(nothing, found, 5).summary().values()) == {-1.0}


def test_perfect_detections():
    truth, _ = random_case(1)
    truth = [replace(one, crowd=np.zeros(len(one.labels))) for one in truth]
    found = [ImageDetections(one.boxes, one.labels, np.ones(len(one.labels))) for one in truth]
    scores = average_precision(truth, found, 5)
    assert scores.ap() == pytest.approx(1.0)
    assert scores.per_class()[-1] == -1


def test_numbers_of_one_class_and_curves():
    truth, found = random_case(2)
    scores = average_precision(truth, found, 5)
    theirs = evaluated_by_coco(truth, found, 5).eval["precision"]
    assert scores.per_class("large").tolist()[0] == np.mean(theirs[:, :, 0, 3, 2])
    assert scores.ap(threshold=0.75, label=1) == np.mean(theirs[5, :, 1, 0, 2])
    assert scores.ap() == pytest.approx(np.mean(scores.per_class()[:4]))
    curve = scores.curve(1, threshold=0.6)
    assert np.array_equal(curve, theirs[2, :, 1, 0, 2])
    assert curve.shape == RECALLS.shape
    assert (np.diff(curve) <= 0).all()
    assert scores.ar(label=0) <= 1


def test_an_unknown_threshold_is_refused():
    scores = average_precision(*random_case(0), 5)
    with pytest.raises(UserError, match="no such IoU threshold"):
        scores.ap(threshold=0.52)


def test_wrong_input_is_refused():
    truth, found = random_case(0)
    with pytest.raises(UserError, match="different images"):
        average_precision(truth, found[:-1], 5)
    with pytest.raises(UserError, match="no images"):
        average_precision([], [], 5)
    with pytest.raises(UserError, match="unknown label"):
        average_precision(truth, found, 3)
    with pytest.raises(UserError, match="has no masks"):
        average_precision(truth, found, 5, "masks")


def test_masks_of_two_sizes_are_refused():
    small, large = (RunLengths.from_mask(np.ones(shape, dtype=bool)) for shape in ((8, 8), (9, 8)))
    box, zero, one = np.array([[0.0, 0, 8, 8]]), np.zeros(1), np.ones(1)
    truth, found = ImageObjects(box, zero, one, zero, [small]), ImageDetections(box, zero, one, [large])
    with pytest.raises(UserError, match="different sizes"):
        average_precision([truth], [found], 1, "masks")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"boxes": np.zeros((3, 4))}, "boxes and labels"),
        ({"scores": np.array([0.5, np.nan])}, "non-finite"),
        ({"masks": []}, "masks and labels"),
    ],
)
def test_wrong_records_are_refused(change, message):
    good = ImageDetections(np.zeros((2, 4)), np.zeros(2), np.zeros(2))
    with pytest.raises(UserError, match=message):
        replace(good, **change)
