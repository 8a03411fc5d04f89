"""Heads leave out boxes that are not valid where shapes may depend on values; losses and detections stay the same."""

import pytest
import torch

from patchword.core.geometry.objects import Targets
from patchword.layers.dense import anchor_detector as detector_module
from patchword.layers.dense.selection import Proposals, leading_count
from patchword.models.detection import create_detector
from patchword.objectives.detection import stage_loss
from patchword.objectives.detection.rules import detection_loss
from patchword.objectives.detection.shared_loss import SharedLoss
from support.dense.keys import seeded_keys


def every_box(valid):
    return valid.shape[1]


def small():
    """A small Mask R-CNN whose classes rarely exceed the score threshold."""
    torch.manual_seed(0)
    fields = {"backbone_fields": {"width": 8}, "classes": 3, "frozen": 0, "width": 16, "hidden": 16}
    model = create_detector("mask-rcnn", backbone="resnet-18", **fields)
    torch.nn.init.normal_(model.stages[0].class_output.weight, std=0.8)
    with torch.no_grad():
        model.stages[0].class_output.bias[-1] = 5.0  # background
    return model


def test_the_count_reaches_the_last_valid_box():
    valid = torch.tensor([[True, False, False, False], [True, True, True, False]])
    assert leading_count(valid) == 3
    assert leading_count(valid & False) == 1
    assert leading_count(valid[:, :0]) == 0
    assert leading_count(valid[:0]) == 4
    assert leading_count(valid.to("meta")) == 4
    assert torch.compile(leading_count, fullgraph=True, backend="eager")(valid) == 4


@torch.no_grad()
def test_detections_do_not_change(monkeypatch):
    detector, images = small().eval(), torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(2))
    rows = []
    detector.masks[0].register_forward_pre_hook(lambda module, given: rows.append(given[1].shape[1]))
    found = detector(images)
    monkeypatch.setattr(detector_module, "leading_count", every_box)
    expected = detector(images)
    assert 0 < rows[0] < rows[1] == found.valid.shape[1]
    assert torch.equal(found.valid, expected.valid)
    for field in ("boxes", "scores", "labels", "masks"):
        one, other = getattr(found, field), getattr(expected, field)
        assert one.shape == other.shape
        assert torch.allclose(one[found.valid], other[found.valid], atol=1e-5), field


@pytest.mark.parametrize("valid", [0, 1, 60])
@torch.no_grad()
def test_the_number_of_detections_does_not_depend_on_the_valid_proposals(valid):
    detector, read = small().eval(), []
    detector.stages[0].register_forward_pre_hook(lambda module, given: read.append(given[1].shape[1]))
    boxes = torch.tensor([4.0, 6.0, 40.0, 50.0]).expand(2, 200, 4)
    is_valid = (torch.arange(200) < valid).expand(2, -1)
    levels, sizes = detector.features(torch.zeros(2, 3, 64, 96)), torch.tensor([[64, 96]] * 2)
    found = detector.refine(levels, Proposals(boxes, torch.zeros(2, 200), is_valid), sizes)
    assert read == [max(valid, 34)]  # 34 boxes of 3 classes are enough for 100 detections
    assert found.boxes.shape == (2, 100, 4)
    assert valid or not found.valid.any()


@pytest.mark.parametrize("count", [0, 2])
def test_the_mask_loss_and_its_gradients_do_not_change(monkeypatch, count):
    boxes = [torch.tensor([[4.0, 6.0, 40.0, 50.0], [30.0, 8.0, 80.0, 60.0]])[:count]] * 2
    masks = [torch.rand(count, 64, 96, generator=torch.Generator().manual_seed(1)) > 0.5] * 2
    given = Targets.of(boxes, [torch.arange(count)] * 2, torch.tensor([[64, 96]] * 2), masks)
    images = torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(2))
    detector, rows = small().double(), []
    detector.masks[0].register_forward_pre_hook(lambda module, given: rows.append(given[1].shape[1]))

    def results():
        losses = detection_loss(detector)(detector, images.double(), given, SharedLoss(keys=seeded_keys(3)))
        return losses["mask"], *torch.autograd.grad(losses["mask"], list(detector.masks.parameters()))

    found = results()
    monkeypatch.setattr(stage_loss, "leading_count", every_box)
    for one, other in zip(found, results(), strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-9)
    assert 1 <= rows[0] < rows[1]
    assert bool(found[0] > 0) == (count > 0)
