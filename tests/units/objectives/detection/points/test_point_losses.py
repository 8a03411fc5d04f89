"""Losses of RepPoints v2 against golden tensors and their formulas."""

import torch

from patchword.objectives.detection.losses import giou_loss
from patchword.objectives.detection.points.point_losses import (
    gaussian_focal_loss,
    quality_focal_loss,
    semantic_focal_losses,
    widened_giou_loss,
)
from support.dense.operators import golden


def test_quality_focal_loss():
    logits, labels, quality = (golden(f"loss/{name}") for name in ("logits", "labels", "quality"))
    found = quality_focal_loss(logits, labels, quality, beta=2.0).sum(dim=-1)
    assert torch.allclose(found, golden("loss/quality_focal"), rtol=1e-5, atol=1e-6)
    other = quality_focal_loss(logits, labels, quality, beta=1.0).sum(dim=-1)
    assert not torch.allclose(other, golden("loss/quality_focal"), rtol=1e-2)


def test_gaussian_focal_loss():
    heat, target = golden("loss/heat"), golden("loss/heat_target")
    found = gaussian_focal_loss(heat.double().logit(), target.double(), alpha=2.0, gamma=4.0)
    assert torch.allclose(found.float(), golden("loss/gaussian_focal"), rtol=1e-5, atol=1e-6)


def test_certain_corners_have_finite_losses_and_gradients():
    logits = torch.tensor([-200.0, 200.0, -200.0, 200.0], requires_grad=True)
    losses = gaussian_focal_loss(logits, torch.tensor([1.0, 1.0, 0.2, 0.2]), alpha=2.0, gamma=4.0)
    assert losses.isfinite().all()
    assert torch.autograd.grad(losses.sum(), logits)[0].isfinite().all()


def test_semantic_focal_losses():
    logits, positive = torch.tensor([0.3, 0.3]), torch.tensor([True, False])
    p = torch.sigmoid(torch.tensor(0.3))
    expected = torch.stack([-0.25 * (1 - p) ** 2 * p.log(), -0.75 * p**2 * (1 - p).log()])
    assert torch.allclose(semantic_focal_losses(logits, positive, gamma=2.0, alpha=0.25), expected)


def test_sides_are_one_longer():
    boxes = torch.tensor([[0.0, 0.0, 1.0, 2.0], [3.0, 1.0, 5.0, 2.0]])
    targets = torch.tensor([[0.0, 1.0, 2.0, 2.0], [0.0, 0.0, 1.0, 1.0]])
    longer = torch.tensor([0.0, 0.0, 1.0, 1.0])
    assert torch.allclose(widened_giou_loss(boxes, targets), giou_loss(boxes + longer, targets + longer), atol=1e-5)
