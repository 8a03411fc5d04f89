"""Confusion matrix and scores against loops over pixels."""

import math

import pytest
import torch

from patchword.core.errors import UserError
from patchword.objectives.metrics.segmentation.confusion import SegmentationScores, confusion_matrix


def naive(predicted, target, classes, ignored=255):
    """A second implementation: mean IoU, pixel accuracy and mean accuracy by sets of pixels."""
    pixels = [
        (int(one), int(other))
        for one, other in zip(predicted.flatten(), target.flatten(), strict=True)
        if other != ignored
    ]
    ious, accuracies = [], []
    for label in range(classes):
        hits = sum(one == label and other == label for one, other in pixels)
        union = sum(one == label or other == label for one, other in pixels)
        size = sum(other == label for _, other in pixels)
        if union:
            ious.append(hits / union)
        if size:
            accuracies.append(hits / size)
    right = sum(one == other for one, other in pixels) / len(pixels)
    return sum(ious) / len(ious), right, sum(accuracies) / len(accuracies)


@pytest.mark.parametrize("seed", range(8))
def test_scores_equal_those_of_loops(seed):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, 5, (2, 9, 7), generator=generator)  # of seven classes, one or two never occur
    predicted = torch.where(torch.rand(target.shape, generator=generator) < 0.6, target, target + 1)
    target[torch.rand(target.shape, generator=generator) < 0.2] = 255
    found = SegmentationScores.of(confusion_matrix(predicted, target, 7))
    expected = naive(predicted, target, 7)
    assert (found.mean_iou, found.pixel_accuracy, found.mean_accuracy) == pytest.approx(expected, rel=1e-12)
    assert math.isnan(found.iou[6])
    assert sum(found.pixels) == int((target != 255).sum())


def test_rows_are_targets_and_matrices_add_up():
    target, predicted = torch.tensor([[0, 0, 1, 255]]), torch.tensor([[0, 1, 1, 0]])
    matrix = confusion_matrix(predicted, target.to(torch.uint8), 3)
    assert matrix.dtype == torch.int64
    assert matrix.tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0]]
    halves = sum(confusion_matrix(one, other, 3) for one, other in zip(predicted.T, target.T, strict=True))
    assert torch.equal(halves, matrix)
    scores = SegmentationScores.of(matrix)
    assert scores.iou[:2] == (0.5, 0.5)
    assert scores.accuracy[:2] == (0.5, 1.0)
    assert math.isnan(scores.accuracy[2])
    assert scores.pixels == (2, 1, 0)


def test_a_class_that_is_only_predicted_counts_in_the_mean_iou():
    scores = SegmentationScores.of(confusion_matrix(torch.tensor([0, 2]), torch.tensor([0, 0]), 3))
    assert scores.iou[2] == 0.0
    assert scores.mean_iou == 0.25
    assert scores.mean_accuracy == 0.5


def test_no_labelled_pixel_gives_nan():
    assert math.isnan(SegmentationScores.of(confusion_matrix(torch.tensor([0]), torch.tensor([255]), 2)).mean_iou)


@pytest.mark.parametrize(
    ("predicted", "target", "got"), [([0, 0], [0, 7], "7"), ([0, 9], [0, 1], "9"), ([0, -1], [0, 1], "-1")]
)
def test_indices_out_of_range_are_errors(predicted, target, got):
    with pytest.raises(UserError, match="no class") as found:
        confusion_matrix(torch.tensor(predicted), torch.tensor(target), 3)
    assert got in str(found.value)
    confusion_matrix(torch.tensor([9]), torch.tensor([255]), 3)  # of an ignored pixel, any prediction is accepted


def test_different_shapes_are_an_error():
    with pytest.raises(UserError, match="different shapes"):
        confusion_matrix(torch.zeros(2, 3), torch.zeros(3, 2), 2)
