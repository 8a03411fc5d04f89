"""The loss of segmenters: both means, parts of a batch, gradients, and less memory."""

import pytest
import torch
import torch.nn.functional as F

from patchword.core.errors import UserError
from patchword.layers.dense.segmentation.segmenter import SegmenterOutput
from patchword.objectives.segmentation import cross_entropy
from patchword.objectives.segmentation.cross_entropy import enlarged_cross_entropy
from patchword.objectives.segmentation.loss import SegmentationLoss, segmentation_loss


def example(count=3, classes=4, size=(9, 14)):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(count, classes, 3, 4, generator=generator).requires_grad_()
    auxiliary = torch.randn(count, classes, 2, 2, generator=generator).requires_grad_()
    labels = torch.randint(0, classes, (count, *size), generator=generator)
    labels[torch.rand(labels.shape, generator=generator) < 0.3] = 255
    return SegmenterOutput(logits, auxiliary), labels.to(torch.uint8)


def full(logits, size):
    return F.interpolate(logits, size=size, mode="bilinear", align_corners=False)


@pytest.mark.parametrize("mean", ["all", "labelled"])
def test_both_means_equal_those_of_torch(mean):
    output, labels = example()
    found = SegmentationLoss(mean=mean).on_outputs(output, labels)
    losses = F.cross_entropy(full(output.logits, (9, 14)), labels.long(), ignore_index=255, reduction="none")
    expected = losses.mean() if mean == "all" else losses[labels != 255].mean()
    assert float(found["class"].detach()) == pytest.approx(float(expected.detach()), rel=1e-6)
    twice = SegmentationLoss(mean=mean, auxiliary_weight=0.8).on_outputs(output, labels)
    assert float(twice["auxiliary"].detach()) == pytest.approx(2 * float(found["auxiliary"].detach()))


def test_the_gradient_is_that_of_torch_for_any_number_of_images_at_once(monkeypatch):
    output, labels = example()
    expected = F.cross_entropy(full(output.logits, (9, 14)), labels.long(), ignore_index=255, reduction="sum")
    (gradient,) = torch.autograd.grad(2 * expected, output.logits)
    for largest in (1, 2 * 4 * 9 * 14, 2**27):  # one, two and three images at once
        monkeypatch.setattr(cross_entropy, "_LARGEST", largest)
        found = enlarged_cross_entropy(output.logits, labels.long(), 255)
        assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-6)
        torch.testing.assert_close(torch.autograd.grad(2 * found, output.logits)[0], gradient)


@pytest.mark.parametrize("mean", ["all", "labelled"])
def test_losses_of_parts_add_up_to_that_of_the_batch(mean):
    output, labels = example()
    loss = SegmentationLoss(mean=mean)
    whole = loss.on_outputs(output, labels)
    counts = {"all": labels.numel(), "labelled": int((labels != 255).sum())}
    parts = [
        loss.on_outputs(
            SegmenterOutput(output.logits[some], output.auxiliary[some]),
            labels[some],
            lambda count: torch.full_like(count, counts[mean]),
        )
        for some in (slice(0, 1), slice(1, 3))
    ]
    for name, value in whole.items():
        assert float(sum(part[name] for part in parts).detach()) == pytest.approx(float(value.detach()), rel=1e-6)


def test_without_labels_the_loss_is_zero():
    output, labels = example()
    found = SegmentationLoss(mean="labelled").on_outputs(output, torch.full_like(labels, 255))
    assert float(found["class"].detach()) == 0.0


def test_no_auxiliary_logits_no_auxiliary_loss():
    output, labels = example()
    assert SegmentationLoss().on_outputs(SegmenterOutput(output.logits, None), labels).keys() == {"class"}


def test_wrong_labels_are_errors():
    output, labels = example()
    labels[0, 0, 0] = 4
    with pytest.raises(UserError, match="no class") as found:
        SegmentationLoss().on_outputs(output, labels)
    assert "0 to 3, or 255" in str(found.value)
    with pytest.raises(UserError, match="labels of a segmenter"):
        SegmentationLoss().on_outputs(output, labels[:, None])


def test_the_loss_of_a_segmenter_is_that_of_mmseg():
    assert segmentation_loss(torch.nn.Identity()) == SegmentationLoss(ignored=255, mean="all", auxiliary_weight=0.4)
