"""Targets of RepPoints v2, by loops over objects and cells."""

import math

import torch

from patchword.core.geometry.boxes import pairwise_iou
from patchword.core.geometry.objects import Targets
from patchword.objectives.detection.points.point_targets import (
    NearestPointAssigner,
    corner_targets,
    gaussian_radius,
    semantic_weights,
)

SHAPES, STRIDES = ((8, 10), (4, 5), (2, 3)), (8, 16, 32)
COUNTS = [height * width for height, width in SHAPES]


def cells():
    """The places of all cells and their strides."""
    places, strides = [], []
    for (height, width), stride in zip(SHAPES, STRIDES, strict=True):
        places += [[column * stride, row * stride] for row in range(height) for column in range(width)]
        strides += [[stride]] * (height * width)
    return torch.tensor(places, dtype=torch.float32), torch.tensor(strides, dtype=torch.float32)


def objects(count=6):
    generator = torch.Generator().manual_seed(0)
    corner = torch.rand(2, count, 2, generator=generator) * 40
    side = torch.rand(2, count, 2, generator=generator) ** 2 * 150 + 3
    valid = torch.ones(2, count, dtype=torch.bool)
    valid[1, 4:] = False
    return torch.cat([corner, corner + side], dim=-1), valid


def test_nearest_points_by_loops():
    (places, strides), (boxes, valid) = cells(), objects()
    found = NearestPointAssigner()(places, strides, boxes, valid)
    for image in range(2):
        chosen = {}
        for number in range(boxes.shape[1]):
            if not valid[image, number]:
                continue
            x1, y1, x2, y2 = boxes[image, number].tolist()
            level = min(max(math.floor(math.log2(math.sqrt((x2 - x1) * (y2 - y1)) / 4)), 3), 5)
            own = [cell for cell in range(len(places)) if strides[cell] == 2**level]

            def distance(cell, x1=x1, y1=y1, x2=x2, y2=y2):
                x, y = places[cell].tolist()
                return math.hypot((x - (x1 + x2) / 2) / (x2 - x1), (y - (y1 + y2) / 2) / (y2 - y1))

            cell = min(own, key=distance)
            chosen[cell] = min(chosen.get(cell, (math.inf, 0)), (distance(cell), number + 1))
        expected = [chosen.get(cell, (0, 0))[1] for cell in range(len(places))]
        assert found[image].tolist() == expected


def test_corners_by_loops():
    (places, strides), (boxes, valid) = cells(), objects()
    radius = gaussian_radius(boxes, 0.5)
    found = corner_targets(boxes[..., 2:], radius, valid, places, strides, COUNTS)
    for image in range(2):
        heat, owner, start = torch.zeros(len(places)), {}, 0
        for count in COUNTS:
            own = range(start, start + count)
            start += count
            for number in [number for number in range(boxes.shape[1]) if valid[image, number]]:
                away = {cell: float((places[cell] - boxes[image, number, 2:]).norm()) for cell in own}
                spread = (2 * float(radius[image, number]) + 1) / 6
                for cell, distance in away.items():
                    if distance < radius[image, number]:
                        heat[cell] = max(float(heat[cell]), math.exp(-(distance**2) / (2 * spread**2)))
                owner[min(away, key=away.get)] = number
        heat[list(owner)] = 1.0
        assert torch.allclose(found.heat[image], heat, atol=1e-6)
        assert found.positive[image].nonzero().flatten().tolist() == sorted(owner)
        for cell, number in owner.items():
            expected = (boxes[image, number, 2:] - places[cell]) / strides[cell]
            assert torch.allclose(found.offsets[image, cell], expected)


def test_the_radius_keeps_the_overlap():
    """Of the three movements of both corners by the radius, the worst one has exactly this IoU."""
    for box in ([0.0, 0.0, 50.0, 30.0], [0.0, 0.0, 10.0, 80.0]):
        given = torch.tensor([box])
        radius = float(gaussian_radius(given, 0.7))
        moves = torch.tensor([[1.0, 1, 1, 1], [1, 1, -1, -1], [-1, -1, 1, 1]]) * radius
        assert torch.allclose(pairwise_iou(given, given + moves).min(), torch.tensor(0.7), atol=1e-4)


def test_the_smallest_box_of_a_class_gives_the_weight():
    boxes = torch.tensor([[0.0, 0, 40, 40], [10, 10, 20, 20], [0, 0, 8, 8], [0, 0, 64, 64]])
    targets = Targets(
        boxes[None], torch.tensor([[1, 1, 0, 0]]), torch.tensor([[True, True, True, False]]), torch.tensor([[64, 64]])
    )
    found = semantic_weights(targets, 3, (8, 8), 8)[0]
    assert torch.allclose(found[1, 0, 0], torch.tensor(1 / 1600))
    assert torch.allclose(found[1, 1:3, 1:3], torch.tensor(1 / 100))
    assert found[0].count_nonzero() == 4  # cells 0 and 1 each way: both ends count; padding does not
    assert not found[2].any()


def test_no_objects():
    places, strides = cells()
    boxes, valid = torch.zeros(2, 1, 4), torch.zeros(2, 1, dtype=torch.bool)
    assert not NearestPointAssigner()(places, strides, boxes, valid).any()
    found = corner_targets(boxes[..., :2], gaussian_radius(boxes, 0.7), valid, places, strides, COUNTS)
    assert not found.positive.any()
    assert not found.heat.any()
