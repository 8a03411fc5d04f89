"""Heads of Sparse R-CNN: the start, gradients between heads, full precision, dropout."""

import torch

from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.fpn import Fpn
from patchword.layers.dense.queries.sparse_detector import SparseDetector
from patchword.layers.dense.queries.sparse_head import SparseHead
from patchword.layers.dense.roi_heads import RoiPool

SIZES = torch.tensor([[32, 48], [32, 40]])


def head(classes=3, **changed):
    torch.manual_seed(0)
    sizes = {"heads": 2, "hidden": 16, "inner": 4, "class_layers": 1, "box_layers": 2, **changed}
    pool, coder = RoiPool((4,), 3, samples=2), BoxCoder((0.5, 0.5, 1.0, 1.0), clamp_below=True)
    return SparseHead(pool, coder, 8, classes, **sizes)


def detector(stages=2):
    neck = Fpn((8,), 8, extra=0, extra_from="pool")
    return SparseDetector(torch.nn.Identity(), neck, [head() for _ in range(stages)], 5, 8, 10)


def test_boxes_start_as_the_whole_image():
    found = detector()
    assert torch.equal(found.boxes, torch.tensor([[0.5, 0.5, 1.0, 1.0]]).expand(5, 4))
    seen = []
    found.stages[0].register_forward_pre_hook(lambda module, given: seen.append(given[1]))
    found.refine([torch.randn(2, 8, 8, 12)], SIZES)
    assert seen[0][1, 0].tolist() == [0.0, 0.0, 40.0, 32.0]


def test_only_class_layers_start_with_the_prior():
    module = head(classes=8)  # as many classes as channels
    assert torch.allclose(module.class_output.bias.sigmoid(), torch.tensor(0.01))
    for layer in (module.box_output, module.attention.sublayer.output, module.dynamic.sublayer.weights):
        assert layer.bias.abs().max() < 1
        assert layer.weight.abs().max() < 2


def test_boxes_are_detached_between_heads_and_queries_are_not():
    found = detector()
    first, last = found.refine([torch.randn(2, 8, 8, 12)], SIZES)
    boxes = found.stages[0].box_output.weight
    (slope,) = torch.autograd.grad(last.boxes.sum(), boxes, allow_unused=True, retain_graph=True)
    assert slope is None or not slope.any()
    assert torch.autograd.grad(first.boxes.sum(), boxes, retain_graph=True)[0].any()
    assert torch.autograd.grad(last.logits.sum(), found.queries)[0].any()


def test_outputs_are_in_full_precision_under_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        output = detector().refine([torch.randn(2, 8, 8, 12)], SIZES)[-1]
    assert (output.logits.dtype, output.boxes.dtype) == (torch.float32, torch.float32)


def test_fewer_pairs_than_detections():
    found = SparseDetector(torch.nn.Identity(), Fpn((8,), 8, extra=0, extra_from="pool"), [head()], 5, 8, 100)
    detections = found.detect([torch.randn(2, 8, 8, 12)], SIZES)
    assert detections.boxes.shape == (2, 15, 4)
    assert (detections.scores.diff(dim=1) <= 0).all()
    assert (detections.boxes[..., 2] <= SIZES[:, 1:]).all()
