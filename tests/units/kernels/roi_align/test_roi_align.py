"""RoIAlign against torchvision's compiled operator, on one map and over a pyramid."""

import pytest
import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.kernels.roi_align import box_levels, roi_align, roi_align_masks
from support.dense.operators import assert_compiles, golden

STRIDE = 4
RULES = [(aligned, samples) for aligned in (False, True) for samples in (2, "adaptive")]


def rule_name(aligned: bool, samples: object) -> str:
    return f"roi_align/aligned{int(aligned)}.ratio{0 if samples == 'adaptive' else samples}"


def pooled_rois(features: Tensor, aligned: bool, samples: object) -> Tensor:
    """The golden boxes on both images, of which each box takes its own."""
    rois = golden("roi_align/rois")
    image = rois[:, 0].long()
    boxes = rois[:, 1:].expand(2, -1, 4)
    levels = torch.where(image == torch.arange(2)[:, None], 0, -1)
    found = roi_align([features], boxes, levels, [STRIDE], (7, 7), aligned=aligned, samples=samples)
    return found.sum(dim=0)  # a level of -1 gives zeros


@pytest.mark.parametrize(("aligned", "samples"), RULES)
def test_roi_align_equals_the_compiled_operator(aligned, samples):
    features = golden("roi_align/map").requires_grad_()
    found = pooled_rois(features, aligned, samples)
    expected = golden(rule_name(aligned, samples))
    assert torch.allclose(found, expected, rtol=0, atol=2e-5 * expected.abs().max().item())


@pytest.mark.parametrize(("aligned", "samples"), RULES)
def test_gradients_equal_those_of_the_compiled_operator(aligned, samples):
    features = golden("roi_align/map").requires_grad_()
    found = pooled_rois(features, aligned, samples)
    found.backward(torch.linspace(-1, 1, found.numel()).view_as(found))
    expected = golden(rule_name(aligned, samples) + ".gradient")
    assert features.grad is not None
    assert torch.allclose(features.grad, expected, rtol=0, atol=1e-5 * expected.abs().max().item())


def test_levels_equal_those_of_three_libraries():
    found = box_levels(golden("levels/boxes"), 4)
    for library in ("mmdet", "detectron2", "torchvision"):
        assert torch.equal(found, golden(f"levels/{library}"))


def test_each_box_reads_its_own_level():
    torch.manual_seed(0)
    maps = [torch.randn(2, 3, 32, 40), torch.randn(2, 3, 16, 20)]
    boxes = torch.rand(2, 5, 4) * 30 + torch.tensor([0.0, 0.0, 40.0, 40.0])
    levels = torch.tensor([[0, 1, 0, 1, -1], [1, 1, 0, -1, 0]])
    found = roi_align(maps, boxes, levels, [4, 8], (2, 3), aligned=True, samples="adaptive")
    assert found.shape == (2, 5, 3, 2, 3)
    for level, stride in enumerate([4, 8]):
        alone = roi_align([maps[level]], boxes, levels * 0, [stride], (2, 3), aligned=True, samples="adaptive")
        assert torch.allclose(found[levels == level], alone[levels == level], atol=1e-6)
    assert not found[levels == -1].any()


def test_a_box_larger_than_the_map_and_an_empty_box():
    features = torch.ones(1, 1, 4, 4)
    boxes = torch.tensor([[[-400.0, -400.0, 404.0, 404.0], [2.0, 2.0, 2.0, 2.0], [3.0, 3.0, 1.0, 1.0]]])
    found = roi_align([features], boxes, torch.zeros(1, 3).long(), [1], (1, 1), aligned=True, samples="adaptive")
    # 804 samples per axis at whole numbers; those from -1 to 4 count.
    assert found.flatten().tolist() == pytest.approx([(6 / 804) ** 2, 0, 0])


def test_wrong_arguments_are_refused():
    given = [torch.ones(1, 1, 4, 4)], torch.ones(1, 1, 4), torch.zeros(1, 1)
    with pytest.raises(UserError, match="adaptive"):
        roi_align(*given, [1], (1, 1), aligned=True, samples=0)
    with pytest.raises(UserError, match="one stride per map"):
        roi_align(*given, [], (1, 1), aligned=True, samples=1)


@pytest.mark.parametrize("samples", [2, "adaptive"])
def test_roi_align_compiles(samples):
    maps, boxes, levels = [torch.randn(1, 2, 8, 8)], torch.tensor([[[1.0, 2.0, 20.0, 30.0]]]), torch.zeros(1, 1).long()
    assert_compiles(roi_align, maps, boxes, levels, [4], (3, 3), aligned=True, samples=samples)
    masks = torch.ones(1, 1, 40, 40)
    assert_compiles(roi_align_masks, masks, boxes, levels, (3, 3), aligned=True, samples=samples)
    assert_compiles(box_levels, boxes, 4)
