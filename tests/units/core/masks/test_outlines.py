"""Outlines of regions: filled by COCO's rule, they give the label map back."""

import numpy as np
import pytest

from patchword.core.masks.outlines import connected_regions, trace_regions
from patchword.core.masks.polygons import fill_polygons


def filled(labels):
    """Return how often each pixel is filled, and with which label."""
    found, times = np.full(labels.shape, 99, np.uint8), np.zeros(labels.shape, int)
    for region in trace_regions(labels):
        mask = fill_polygons([region.polygon], *labels.shape).to_mask()
        assert mask.sum() == region.area
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        assert region.box == (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
        found[mask] = region.label
        times += mask
    return found, times


@pytest.mark.parametrize("seed", range(40))
def test_filling_the_polygons_gives_the_labels_back(seed):
    chance = np.random.default_rng(seed)
    height, width = chance.integers(1, 16, 2)
    labels = chance.integers(0, chance.integers(1, 5), (height, width)).astype(np.uint8)
    found, times = filled(labels)
    assert np.array_equal(found, labels)
    assert (times == 1).all()


def test_regions_with_holes_and_islands():
    labels = np.zeros((9, 9), np.uint8)
    labels[1:8, 1:8] = 1
    labels[2:7, 2:7] = 0
    labels[4, 4] = 1
    labels[3, 3] = 1
    regions = trace_regions(labels)
    assert [(region.label, region.area) for region in regions] == [(0, 32), (1, 24), (0, 23), (1, 1), (1, 1)]
    assert np.array_equal(filled(labels)[0], labels)


def test_a_rectangle_has_four_corners():
    labels = np.zeros((5, 6), np.uint8)
    labels[1:3, 2:5] = 7
    region = trace_regions(labels)[1]
    assert {tuple(corner) for corner in region.polygon.tolist()} == {(2, 1), (5, 1), (5, 3), (2, 3)}
    assert len(region.polygon) == 4


def test_diagonal_neighbours_are_two_regions():
    labels = np.array([[1, 0], [0, 1]], np.uint8)
    assert connected_regions(labels).tolist() == [[0, 1], [2, 3]]


def test_a_spiral_is_one_region():
    labels = np.zeros((7, 7), np.uint8)
    labels[0], labels[:, 6], labels[6], labels[2:, 0], labels[2, :5], labels[2:5, 4], labels[4, 2:5] = (1,) * 7
    assert len(trace_regions(labels)) == 2
    assert np.array_equal(filled(labels)[0], labels)
