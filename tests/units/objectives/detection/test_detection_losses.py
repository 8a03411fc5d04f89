"""Losses of detectors against mmdet."""

import torch

from patchword.objectives.detection.losses import focal_loss, giou_loss
from support.dense.operators import assert_compiles, golden


def test_focal_loss_equals_mmdet():
    found = focal_loss(golden("loss/logits"), golden("loss/labels"), gamma=2.0, alpha=0.25)
    assert torch.allclose(found, golden("loss/focal"), rtol=1e-5, atol=1e-6)


def test_giou_loss_equals_mmdet():
    assert torch.allclose(giou_loss(golden("loss/boxes"), golden("loss/targets")), golden("loss/giou"), atol=1e-6)


def test_focal_loss_stays_finite_at_extreme_logits():
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    loss = focal_loss(logits, torch.tensor([1]), gamma=2.0, alpha=0.25)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_losses_compile():
    assert_compiles(focal_loss, golden("loss/logits"), golden("loss/labels"), gamma=2.0, alpha=0.25)
    assert_compiles(giou_loss, golden("loss/boxes"), golden("loss/targets"))
