"""Boxes of RepPoints v2: points to boxes, and corners that move to the best cell nearby, by loops."""

import torch
from torch import nn

from patchword.layers.dense.points.bifpn import BiFpn
from patchword.layers.dense.points.reppoints_detector import RepPointsDetector
from patchword.layers.dense.points.reppoints_head import PointsOutput, RepPointsHead
from patchword.layers.dense.selection import Selection

SHAPES = ((6, 7), (3, 4), (2, 2), (1, 1), (1, 1))
STRIDES = (8, 16, 32, 64, 128)


def detector():
    neck = BiFpn((8,), 8, extra=4, rounds=1, groups=2)
    head = RepPointsHead(8, 3, depth=1, shared_depth=1, corner_width=4, groups=2)
    return RepPointsDetector(nn.Identity(), neck, head, STRIDES, Selection(20, 0.6))


def output(shapes=SHAPES):
    torch.manual_seed(0)
    cells = sum(height * width for height, width in shapes)
    sizes = {"logits": 3, "first": 18, "refined": 18, "corner_scores": 2, "corner_offsets": 4, "semantic": 3}
    return PointsOutput(**{name: torch.randn(2, cells, size) for name, size in sizes.items()}, shapes=shapes)


def test_boxes_of_points():
    given = output()
    boxes = detector().boxes(given, given.refined)
    cell = 6 * 7 + 5  # of the second level: row 1, column 1
    y1, x1, y2, x2 = given.refined[1, cell, :4].tolist()
    expected = [16 + 16 * x1, 16 + 16 * y1, 16 + 16 * x2, 16 + 16 * y2]
    assert torch.allclose(boxes[1, cell], torch.tensor(expected))


def snapped_by_loops(boxes, given, level):
    """The rule in loops: the best of the 2x2 cells from the one that holds the corner on, plus its offset."""
    (height, width), stride = given.shapes[level], STRIDES[level]
    start = sum(rows * columns for rows, columns in given.shapes[:level])
    found = boxes.clone()
    for image, box, corner in torch.cartesian_prod(*map(torch.arange, (*boxes.shape[:2], 2))).tolist():
        x, y = boxes[image, box, 2 * corner : 2 * corner + 2].tolist()
        column, row = (min(max(at / stride, 0), max(side - 2, 0)) // 1 for at, side in ((x, width), (y, height)))
        cells = [(int(row) + down, int(column) + right) for down in range(2) for right in range(2)]
        cells = [start + one * width + two for one, two in cells if one < height and two < width]
        best = max(cells, key=lambda cell: given.corner_scores[image, cell, corner])
        place = torch.tensor([(best - start) % width, (best - start) // width])
        offset = given.corner_offsets[image, best, 2 * corner : 2 * corner + 2]
        found[image, box, 2 * corner : 2 * corner + 2] = (place + offset) * stride
    return found


def test_corners_move_to_the_best_cell():
    given, boxes = output(), torch.rand(2, 30, 4) * 70 - 5
    for level in range(2):
        assert torch.allclose(detector()._snapped(boxes, given, level), snapped_by_loops(boxes, given, level))


def test_maps_of_one_row_or_one_cell():
    for shape in ((1, 4), (4, 1), (1, 1)):
        given, boxes = output((shape,)), torch.rand(2, 9, 4) * 40
        assert torch.allclose(detector()._snapped(boxes, given, 0), snapped_by_loops(boxes, given, 0))


def test_which_level_refines_which():
    """Strides 16 and 32 read the corners of stride 8, strides 64 and 128 those of stride 16."""
    assert detector().corners_from == (None, 0, 0, 1, 1)
