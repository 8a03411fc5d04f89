"""Anchors against mmdet and torchvision."""

import torch
from torch import Tensor

from patchword.layers.dense.anchors import Anchors
from support.dense.operators import assert_compiles, golden

SHAPES = [(5, 7), (3, 4)]
RATIOS = (0.5, 1.0, 2.0)


def assert_same_anchors(found: Tensor, expected: Tensor) -> None:
    """Each side of an anchor is a product of two rounded numbers, and its corners are a sum: three roundings each."""
    bound = 3 * torch.finfo(expected.dtype).eps * float(expected.abs().max())
    assert float((found - expected).abs().max()) <= bound


def test_anchors_of_the_rpn_equal_mmdet():
    found = Anchors(((64.0,), (128.0,)), RATIOS, rounded=False).boxes(SHAPES, [8, 16])
    for level in range(2):
        assert_same_anchors(found[level], golden(f"anchors/mmdet.rpn.{level}"))


def test_three_sizes_per_cell_equal_mmdet():
    lengths = tuple(tuple(4 * stride * 2 ** (part / 3) for part in range(3)) for stride in (8, 16))
    anchors = Anchors(lengths, RATIOS, rounded=False)
    found = anchors.boxes(SHAPES, [8, 16])
    assert anchors.per_cell == 9
    for level in range(2):
        assert_same_anchors(found[level], golden(f"anchors/mmdet.retinanet.{level}"))


def test_rounded_anchors_equal_torchvision():
    found = Anchors(((64.0,), (128.0,)), RATIOS, rounded=True).boxes(SHAPES, [8, (13, 14)])
    assert torch.equal(torch.cat(found), golden("anchors/torchvision.rpn"))


def test_anchors_are_cached_and_can_be_used_in_training():
    anchors = Anchors(((20.0,),), (1.0,), rounded=False)
    with torch.inference_mode():
        first = anchors.boxes([(2, 2)], [4])[0]
    second = anchors.boxes([(2, 2)], [4])[0]
    assert first is second
    assert not first.is_inference()


def test_anchors_compile():
    assert_compiles(Anchors(((64.0,), (128.0,)), RATIOS, rounded=True).boxes, SHAPES, [8, 16])
