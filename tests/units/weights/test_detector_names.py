"""Detectors under the names of mmdet and torchvision, both ways."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

import patchword
from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.models.detection import create_detector
from support.helpers import randomise, unequal_tensors

RESNET = {"backbone": "resnet-18", "backbone_fields": {"width": 4, "depths": (1, 1, 1, 1)}, "classes": 3}
SWIN = {
    "backbone": "swin-tiny",
    "backbone_fields": {"width": 32, "depths": (1, 1, 1, 1), "heads": (1, 2, 4, 8)},
    "classes": 3,
    "window_padding": "attended",
}
SIZES = {
    "faster-rcnn": {"width": 8, "hidden": 8},
    "mask-rcnn": {"width": 8, "hidden": 8},
    "cascade-mask-rcnn": {"width": 8, "hidden": 8},
    "retinanet": {"width": 8, "depth": 3},
    "atss": {"width": 64, "depth": 3},
    "sparse-rcnn": {"width": 8, "hidden": 8, "inner": 4, "proposals": 10, "stages": 2, "clipped": False},
    "reppoints-v2": {"width": 64, "corner_width": 64, "depth": 1, "rounds": 1},
}
TORCHVISION = {
    "rounded_anchors": True,
    "fitted_strides": True,
    "clamp_below": False,
}
OF_RCNN = {"aligned": False, "samples": 2, "min_proposal_size": 1e-3, "min_box_size": 1e-2}
OF_RETINANET = {"extra_relu": True, "integer_lengths": True, "rank_pairs": True, "max_detections": 300}
LABELS = ("bag", "coat", "dress")


def small(name, fields, **others):
    torch.manual_seed(0)
    detector = randomise(create_detector(name, **{**fields, **SIZES[name], **others})).eval()
    detector.card = replace(detector.card, labels=LABELS, normalization=Normalization((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))
    return detector


@torch.no_grad()
def check_both_ways(detector, library, folder):
    """The saved file is recognised, and gives the same model; returns the names in it."""
    again = patchword.load(patchword.save(detector, folder, layout=library))
    assert again.card.model == detector.card.model
    assert (again.card.labels, again.card.normalization) == (detector.card.labels, detector.card.normalization)
    assert unequal_tensors(again, detector) == []
    images = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    found, expected = again(images), detector(images)
    assert torch.equal(found.boxes, expected.boxes)
    assert torch.equal(found.scores, expected.scores)
    assert json.loads((folder / "config.json").read_text())["library"] == library
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("fields", [RESNET, SWIN], ids=["resnet", "swin"])
@pytest.mark.parametrize("name", SIZES)
def test_mmdet(name, fields, tmp_path):
    names = check_both_ways(small(name, fields), "mmdet", tmp_path)
    assert not any(part in name for name in names for part in ("proposer.", "stages.0.class", "head.class_tower"))


def test_towers_with_norms_keep_their_order_in_mmdet(tmp_path):
    """The convolutions of a tower are numbered 0, 3, 6 with norms, and 0, 2, 4 without them."""
    plain = check_both_ways(small("retinanet", RESNET), "mmdet", tmp_path / "plain")
    normed = check_both_ways(small("atss", RESNET, groups=32), "mmdet", tmp_path / "normed")
    assert "bbox_head.cls_convs.2.gn.weight" in normed
    assert "bbox_head.cls_convs.2.conv.weight" in plain
    assert not any(".gn." in name for name in plain)


def test_scales_are_scalars_in_mmdet(tmp_path):
    names = check_both_ways(small("atss", RESNET, groups=32), "mmdet", tmp_path)
    assert names["bbox_head.scales.4.scale"].shape == ()


@pytest.mark.parametrize("norms", [{"batch_norms": "buffers", "batch_norm_eps": 0.0}, {"batch_norms": "evaluate"}])
@pytest.mark.parametrize("name", ["faster-rcnn", "mask-rcnn", "retinanet"])
def test_torchvision(name, norms, tmp_path):
    rules = {**TORCHVISION, **(OF_RETINANET if name == "retinanet" else OF_RCNN)}
    detector = small(name, RESNET, **rules, **norms)
    names = check_both_ways(detector, "torchvision", tmp_path)
    assert ("backbone.body.bn1.num_batches_tracked" in names) == (norms["batch_norms"] == "evaluate")
    if name != "retinanet":  # the background comes first, and has no box
        logits = detector.state_dict()["stages.0.class_output.weight"]
        assert torch.equal(names["roi_heads.box_predictor.cls_score.weight"][0], logits[-1])
        assert not names["roi_heads.box_predictor.bbox_pred.weight"][:4].any()


@pytest.mark.parametrize(
    ("detector", "library", "message"),
    [
        (("mask-rcnn", RESNET, {}), "torchvision", "max_detections|rounded_anchors True"),
        (("mask-rcnn", RESNET, {"rounded_anchors": True}), "mmdet", "rounded_anchors False"),
        (("mask-rcnn", {**SWIN, "window_padding": "masked"}, {}), "mmdet", "window_padding attended"),
        (("atss", RESNET, {}), "torchvision", "a family it knows"),
        (("mask-rcnn", {"backbone": "pvt-mini", "classes": 3}, {}), "mmdet", "a family it knows"),
        (("mask-rcnn", RESNET, {"batch_norms": "buffers"}), "torchvision", "batch_norm"),
    ],
    ids=["rules of torchvision", "rules of mmdet", "padding", "no ATSS", "no PVT", "eps"],
)
def test_what_a_library_cannot_express_is_refused(detector, library, message, tmp_path):
    name, fields, others = detector
    rules = {**TORCHVISION, **OF_RCNN} if others.get("batch_norms") else {}
    with pytest.raises(UserError, match=message):
        patchword.save(small(name, fields, **others, **rules), tmp_path, layout=library)
    assert not list(tmp_path.iterdir())
