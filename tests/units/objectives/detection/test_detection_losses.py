"""Losses of detectors against mmdet."""

import torch

from patchword.objectives.detection.losses import focal_loss, giou_loss
from support.dense.operators import assert_compiles, assert_golden, golden


def test_focal_loss_equals_mmdet():
    assert_golden(focal_loss, "loss/focal", golden("loss/logits"), golden("loss/labels"), gamma=2.0, alpha=0.25)


def test_giou_loss_equals_mmdet():
    assert_golden(giou_loss, "loss/giou", golden("loss/boxes"), golden("loss/targets"))


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
