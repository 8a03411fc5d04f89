"""What holds for RepPoints v2 and Sparse R-CNN: any backbone, batches, mixed precision, training steps, saving."""

import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.core.geometry.objects import Targets
from patchword.models.detection import create_detector
from patchword.objectives.detection.rules import detection_loss
from patchword.objectives.detection.shared_loss import SharedLoss
from patchword.weights.export.detection import spread_scores

SIZES = {
    "reppoints-v2": {"width": 64, "depth": 1, "rounds": 1},
    "sparse-rcnn": {"width": 16, "hidden": 16, "inner": 4, "proposals": 10, "stages": 2},
}
SMALL = {"backbone": "resnet-18", "backbone_fields": {"width": 8}, "classes": 3, "frozen": 0}
BACKBONES = {  # with maps of stride 8 and more
    "resnet-18": {"width": 8},
    "regnety-mini": {"channels": 3},
    "swin-tiny": {"width": 8, "depths": (1, 1, 1, 1), "heads": (1, 1, 2, 2)},
    "cswin-tiny": {"width": 8, "depths": (1, 1, 1, 1)},
    "pale-tiny": {"depths": (1, 1, 1, 1)},
    "pvt-tiny": {"depths": (1, 1, 1, 1)},
    "cvt-13": {"depths": (1, 1, 1)},
    "vit-tiny-16": {"depth": 1},
}


@pytest.fixture(params=SIZES)
def name(request):
    return request.param


def small(name):
    torch.manual_seed(0)
    detector = create_detector(name, **SMALL, **SIZES[name])
    spread_scores(detector)
    return detector.eval()


def batch():
    """Two images and their objects."""
    images = torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(1))
    boxes = [torch.tensor([[5.0, 8, 40, 50], [50, 3, 90, 60]]), torch.tensor([[10.0, 20, 30, 37]])]
    labels = [torch.tensor([0, 2]), torch.tensor([1])]
    return images, Targets.of(boxes, labels, torch.tensor([[64, 96], [50, 80]]))


@pytest.mark.parametrize("backbone", BACKBONES)
@torch.no_grad()
def test_any_backbone(name, backbone):
    fields = {**SIZES[name], "classes": 2, "backbone_fields": BACKBONES[backbone]}
    detector = create_detector(name, backbone=backbone, **fields).eval()
    found = detector(torch.randn(1, 3, 48, 64))
    assert found.boxes.isfinite().all()
    assert found.masks is None


def test_a_backbone_of_fine_maps_only_is_refused_by_points():
    with torch.device("meta"), pytest.raises(UserError, match="expected a map of stride 8 or more, got strides 2, 4"):
        create_detector("reppoints-v2", backbone="swin-mini")


@pytest.mark.parametrize("fields", [{"width": 32}, {"corner_width": 48}, {"corner_groups": 3}], ids=str)
def test_widths_that_groups_do_not_divide_are_refused(fields):
    with torch.device("meta"), pytest.raises(UserError, match="width of a RepPoints v2: expected a multiple of"):
        create_detector("reppoints-v2", **fields)


@torch.no_grad()
def test_an_image_does_not_depend_on_the_others_of_its_batch(name):
    detector, (images, targets) = small(name), batch()
    together = detector(images, targets.sizes)
    assert together.counts().min() > 5
    for image in range(2):
        alone = detector(images[image : image + 1], targets.sizes[image : image + 1])
        assert torch.equal(alone.labels[0], together.labels[image])
        assert torch.allclose(alone.boxes[0], together.boxes[image], atol=1e-3)
        assert torch.allclose(alone.scores[0], together.scores[image], atol=1e-5)


def test_losses_of_two_processes_add_up_to_that_of_the_batch(name):
    detector, (images, targets) = small(name), batch()
    loss = detection_loss(detector)
    counts = []
    whole = loss(detector, images, targets, SharedLoss(total=lambda count: counts.append(count) or count))
    parts = [
        loss(detector, images[one], targets[one], SharedLoss(total=_given(counts)))
        for one in (slice(0, 1), slice(1, 2))
    ]
    for key, value in whole.items():
        assert torch.allclose(parts[0][key] + parts[1][key], value, rtol=1e-4, atol=1e-6), key


def _given(counts):
    """Return the counts of the whole batch, in the order in which they are asked for."""
    given = iter(counts)
    return lambda count: next(given)


def test_mixed_precision_computes_predictions_and_losses_in_float32(name):
    detector, (images, targets) = small(name), batch()
    with torch.autocast("cpu", torch.bfloat16):
        found = detector(images, targets.sizes)
        losses = detection_loss(detector)(detector.train(), images, targets)
    assert (found.boxes.dtype, found.scores.dtype) == (torch.float32, torch.float32)
    assert all(loss.dtype == torch.float32 and loss.isfinite() for loss in losses.values())
    torch.stack(list(losses.values())).sum().backward()
    assert all(one.grad.isfinite().all() for one in detector.parameters() if one.grad is not None)


def test_a_few_steps_lower_the_loss(name):
    detector, (images, targets) = small(name).train(), batch()
    seen = []
    for _ in range(4):
        loss = torch.stack(list(detection_loss(detector)(detector, images, targets).values())).sum()
        detector.zero_grad()
        loss.backward()
        with torch.no_grad():  # by signs: importing torch's optimizers takes seconds
            for one in detector.parameters():
                if one.grad is not None:
                    one -= 1e-3 * one.grad.sign()
        seen.append(float(loss.detach()))
    assert seen[-1] < 0.95 * seen[0]


def test_the_loss_copies_to_the_host_once_at_most(name):
    """RepPoints v2 has no step that depends on values; Sparse R-CNN copies its costs to the host once per step."""
    detector, (images, targets) = small(name), batch()
    copies = []
    copy = torch.Tensor.cpu
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "cpu", lambda tensor, *rest: copies.append(tensor.shape) or copy(tensor, *rest))
        detection_loss(detector)(detector, images, targets)
    assert len(copies) == (1 if name == "sparse-rcnn" else 0)


@torch.no_grad()
def test_saved_and_loaded(name, tmp_path):
    detector, (images, targets) = small(name), batch()
    patchword.save(detector, tmp_path)
    loaded = patchword.load(tmp_path)
    assert loaded.card.config == detector.card.config
    assert torch.equal(loaded(images, targets.sizes).boxes, detector(images, targets.sizes).boxes)
    other = patchword.load(tmp_path, classes=5)
    assert {layer.weight.shape[0] for layer in other.class_outputs()} == {5}
