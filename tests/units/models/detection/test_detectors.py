"""Detectors by name."""

from typing import get_args

import pytest
import torch
from torch import nn

import patchword
from patchword.core.errors import UserError
from patchword.models.detection import DETECTORS, DetectorName
from support.toys.worked_examples import worked_example

SMALL = {"width": 16, "hidden": 16, "classes": 3}


def test_the_type_lists_all_names():
    assert get_args(DetectorName) == tuple(DETECTORS)


def test_a_created_detector_knows_its_name_and_sizes():
    with torch.device("meta"):
        detector = patchword.create("mask-rcnn", backbone="resnet-18", **SMALL)
    assert detector.card.model == "mask-rcnn"
    assert detector.card.config["backbone"] == "resnet-18"
    assert detector.card.config["hidden"] == 16


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("mask-rcnn", {"backbone": "bert-base"}, "'bert-base' reads texts"),
        ("mask-rcnn", {"backbones": "swin-tiny"}, "did you mean 'backbone'"),
        ("mask-rcnn", {"pretrained": True}, "'mask-rcnn' is a detector"),
        ("mask-rcnn", {"backbone": "vit-tiny-8"}, "one of stride 8"),
        ("atss", {"backbone": "pvt-tiny", "window_padding": "attended"}, "'pvt-tiny' has no window padding"),
        ("mask-rcn", {}, "did you mean 'mask-rcnn'"),
    ],
)
def test_a_mistake_is_a_message(name, fields, message):
    with torch.device("meta"), pytest.raises(UserError) as raised:
        patchword.create(name, **fields)
    assert message in str(raised.value)


def test_a_resnet_keeps_its_first_stage_and_its_statistics():
    detector = patchword.create("retinanet", backbone="resnet-18", backbone_fields={"width": 8}, classes=2, width=16)
    frozen = {name.split(".")[1] for name, one in detector.backbone.named_parameters() if not one.requires_grad}
    assert frozen == {"0"}  # of the stages
    norms = [one for one in detector.modules() if isinstance(one, nn.BatchNorm2d)]
    before = [one.running_mean.clone() for one in norms]
    detector.train().features(torch.randn(1, 3, 64, 64) + 3)
    assert norms
    assert all(torch.equal(one.running_mean, old) for one, old in zip(norms, before, strict=True))


def test_batch_norms_can_be_buffers():
    fields = {"backbone": "resnet-50", "classes": 2, "width": 16}
    with torch.device("meta"):
        plain, fewer = (patchword.create("retinanet", **fields, batch_norms=kind) for kind in ("train", "buffers"))
    counts = [sum(one.numel() for one in detector.parameters()) for detector in (plain, fewer)]
    assert counts[0] - counts[1] == 53_120
    assert plain.state_dict().keys() == fewer.state_dict().keys()


def test_the_page_runs_as_it_is_written():
    """With smaller sizes than the page's, for speed."""
    (code,) = worked_example("Detectors", "docs/detection.md")
    assert 'backbone="swin-tiny", classes=3' in code
    names: dict[str, object] = {}
    small = code.replace('"swin-tiny", classes=3', '"swin-mini", backbone_fields={"channels": 3}, width=16, hidden=16')
    exec(compile(small.replace("256, 320", "64, 80").replace("250, 300", "50, 70"), "detection.md", "exec"), names)
    assert names["losses"].keys() == {"proposal_class", "proposal_box", "class", "box", "mask"}
    assert names["found"].masks.shape[-2:] == (28, 28)


def test_the_numbers_of_proposals_are_fields():
    def rules(name: str, **fields: int) -> tuple[int, int]:
        with torch.device("meta"):
            proposer = patchword.create(name, backbone="resnet-18", **SMALL, **fields).proposer
        return proposer.rule.max_boxes, proposer.training_rule.max_boxes

    assert rules("mask-rcnn") == (1000, 1000)
    assert rules("cascade-mask-rcnn") == (1000, 2000)
    assert rules("mask-rcnn", max_proposals=200) == (200, 1000)
    assert rules("cascade-mask-rcnn", max_training_proposals=300) == (1000, 300)


@pytest.mark.parametrize("norms", ["evaluate", "buffers", "train"])
def test_norms_of_frozen_stages_are_not_trained(norms):
    detector = patchword.create("retinanet", backbone="resnet-18", batch_norms=norms, frozen=2, width=32, depth=1)
    stages: dict[bool, set[str]] = {True: set(), False: set()}
    for name, one in detector.backbone.named_parameters():
        stages[one.requires_grad].add(name.split(".")[1])
    assert stages == {True: {"2", "3"}, False: {"0", "1"}}
