"""Panoptic quality against loops over pixels, and the rules for void and crowds."""

import numpy as np
import pytest

from patchword.core.errors import UserError
from patchword.objectives.metrics.segmentation.panoptic import (
    PanopticCounts,
    PanopticMap,
    Segment,
    panoptic_counts,
)


def naive(predicted, target, categories):
    """A second implementation: sets of pixels and plain loops; (iou, TP, FP, FN) per category."""

    def pixels(image, wanted):
        rows, columns = image.ids.shape
        return {(y, x) for y in range(rows) for x in range(columns) if image.ids[y, x] == wanted}

    sums = [[0.0, 0, 0, 0] for _ in range(categories)]
    void = pixels(target, 0)
    found = {one: pixels(predicted, one) for one in predicted.segments}
    wanted = {other: pixels(target, other) for other in target.segments}
    used, seen = set(), set()
    for one, segment in predicted.segments.items():
        for other, expected in target.segments.items():
            if expected.is_crowd or expected.category != segment.category:
                continue
            union = (found[one] | wanted[other]) - (void & found[one])
            iou = len(found[one] & wanted[other]) / len(union) if union else 0.0
            if iou > 0.5:
                sums[segment.category][0] += iou
                sums[segment.category][1] += 1
                used.add(one)
                seen.add(other)
    for other, expected in target.segments.items():
        sums[expected.category][3] += not expected.is_crowd and other not in seen
    for one, segment in predicted.segments.items():
        if one in used:
            continue
        outside = set(void)
        for other, expected in target.segments.items():
            if expected.is_crowd and expected.category == segment.category:
                outside |= wanted[other]
        sums[segment.category][2] += len(found[one] & outside) <= 0.5 * len(found[one])
    return sums


def random_map(generator, categories, crowds):
    """Coarse squares, so that segments overlap by more than half now and then."""
    ids = np.kron(generator.integers(0, 5, (4, 4)), np.ones((3, 3), int))
    ids[generator.integers(0, 12), :] = 0
    used = [int(one) for one in np.unique(ids) if one]
    return PanopticMap(
        ids,
        {
            one: Segment(int(generator.integers(0, categories)), bool(crowds and generator.random() < 0.3))
            for one in used
        },
    )


def test_counts_equal_those_of_loops():
    generator, kinds = np.random.default_rng(0), np.zeros(3)
    for _ in range(150):
        target = random_map(generator, 3, crowds=True)
        ids = np.where(generator.random(target.ids.shape) < 0.2, generator.integers(0, 5, target.ids.shape), target.ids)
        segments = {
            int(one): target.segments[int(one)]
            if int(one) in target.segments and generator.random() < 0.7
            else Segment(int(generator.integers(0, 3)))
            for one in np.unique(ids)
            if one
        }
        predicted = PanopticMap(ids, {one: Segment(each.category) for one, each in segments.items()})
        found = panoptic_counts(predicted, target, 3)
        for category, expected in enumerate(naive(predicted, target, 3)):
            row = (found.iou, found.true_positives, found.false_positives, found.false_negatives)
            assert [float(each[category]) for each in row] == pytest.approx(expected)
        kinds += [found.true_positives.sum(), found.false_positives.sum(), found.false_negatives.sum()]
    assert (kinds > 20).all()  # every rule was used


def strip(*ids):
    return np.array([ids])


def test_qualities_by_hand():
    """One match of IoU 2/3, one prediction without an object, one object that is missed."""
    target = PanopticMap(strip(1, 1, 2, 2, 2, 3), {1: Segment(0), 2: Segment(1), 3: Segment(0)})
    predicted = PanopticMap(strip(7, 7, 8, 8, 9, 9), {7: Segment(1), 8: Segment(1), 9: Segment(2)})
    counts = panoptic_counts(predicted, target, 4)
    assert counts.iou.tolist() == pytest.approx([0, 2 / 3, 0, 0])
    assert counts.true_positives.tolist() == [0, 1, 0, 0]
    assert counts.false_positives.tolist() == [0, 1, 1, 0]
    assert counts.false_negatives.tolist() == [2, 0, 0, 0]
    quality = counts.by_category()[1]
    assert quality == pytest.approx((2 / 3 / 1.5, 2 / 3, 1 / 1.5))
    assert quality.panoptic == pytest.approx(quality.segmentation * quality.recognition)
    assert np.isnan(counts.by_category()[3]).all()
    assert counts.mean().panoptic == pytest.approx(quality.panoptic / 3)  # the fourth category does not occur
    assert counts.mean([1]) == quality
    assert np.isnan(counts.mean([3])).all()
    twice = counts + counts
    assert twice.mean() == pytest.approx(counts.mean())
    assert (PanopticCounts.zeros(4) + counts).iou.tolist() == counts.iou.tolist()


@pytest.mark.parametrize(
    ("wanted", "segments", "false_positives"),
    [
        (strip(1, 1, 0, 0, 0, 0), {1: Segment(1)}, 0),  # three of four pixels on void
        (strip(1, 1, 0, 0, 1, 1), {1: Segment(1)}, 1),  # only half
        (strip(1, 1, 2, 2, 2, 1), {1: Segment(1), 2: Segment(0, is_crowd=True)}, 0),  # on a crowd of the same category
        (strip(1, 1, 2, 2, 2, 1), {1: Segment(1), 2: Segment(1, is_crowd=True)}, 1),  # on another crowd
    ],
)
def test_predictions_on_void_and_crowds_are_not_counted(wanted, segments, false_positives):
    predicted = PanopticMap(strip(0, 0, 5, 5, 5, 5), {5: Segment(0)})
    counts = panoptic_counts(predicted, PanopticMap(wanted, segments), 2)
    assert counts.false_positives.tolist() == [false_positives, 0]
    assert counts.false_negatives.tolist() == [0, 1]  # a crowd is not missed


def test_an_overlap_of_exactly_one_half_is_no_match():
    target = PanopticMap(strip(1, 1, 0, 0), {1: Segment(0)})
    predicted = PanopticMap(strip(1, 0, 0, 0), {1: Segment(0)})
    assert panoptic_counts(predicted, target, 1).true_positives.tolist() == [0]


def test_wrong_maps_are_errors():
    whole = PanopticMap(strip(1, 1), {1: Segment(0)})
    with pytest.raises(UserError, match="different sizes"):
        panoptic_counts(PanopticMap(strip(1), {1: Segment(0)}), whole, 1)
    with pytest.raises(UserError, match="without a segment"):
        panoptic_counts(PanopticMap(strip(1, 2), {1: Segment(0)}), whole, 1)
    with pytest.raises(UserError, match="categories of segments"):
        panoptic_counts(PanopticMap(strip(1, 1), {1: Segment(4)}), whole, 1)
