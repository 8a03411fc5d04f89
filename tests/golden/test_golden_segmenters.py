"""Segmenters against mmseg: maps, logits, class maps and losses from the stored inputs."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from patchword.layers.dense.segmentation import pyramid_pooling, semantic_fpn, upernet
from patchword.layers.dense.segmentation.pixel_logits import PixelLogits, class_map
from patchword.objectives.segmentation.loss import SegmentationLoss
from support.dense.segmenters import build, golden_maps, golden_segmenter

NAMES = ("upernet", "semantic_fpn")
LOSS = SegmentationLoss()


def is_near(found, expected, share=1e-5):
    """Within a share of the largest expected value."""
    assert found.shape == expected.shape
    return float((found - expected).abs().max()) <= share * float(expected.abs().max())


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_logits(name):
    golden = golden_segmenter(name)
    found = build(name).outputs(golden_maps(golden), auxiliary=True)
    assert is_near(found.logits, golden["out.logits"])
    assert (found.auxiliary is None) == (name == "semantic_fpn")
    if found.auxiliary is not None:
        assert is_near(found.auxiliary, golden["out.auxiliary"])


@torch.no_grad()
def test_neck():
    golden = golden_segmenter("semantic_fpn")
    for level, found in enumerate(build("semantic_fpn").neck(golden_maps(golden))):
        assert is_near(found, golden[f"out.neck.{level}"])


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_class_maps(name):
    golden = golden_segmenter(name)
    size = (96, 136)
    found = class_map(PixelLogits(build(name)(golden_maps(golden)), size, size), size)
    sure = golden["out.sure"]
    assert sure.float().mean() > 0.99
    assert torch.equal(found[sure], golden["out.answer"].long()[sure])


def losses_of(name, loss=LOSS):
    golden = golden_segmenter(name)
    return loss.on_outputs(build(name).outputs(golden_maps(golden), auxiliary=True), golden["gt"])


@pytest.mark.parametrize("name", NAMES)
def test_losses(name):
    golden, found = golden_segmenter(name), losses_of(name)
    assert (golden["gt"] == 255).any()
    assert float(found["class"].detach()) == pytest.approx(float(golden["loss.decode.loss_seg"]), rel=1e-5)
    if name == "upernet":
        assert float(found["auxiliary"].detach()) == pytest.approx(float(golden["loss.aux.loss_seg"]), rel=1e-5)


# A changed convention is noticed.


def aligned(feature_map, size):
    return F.interpolate(feature_map, size=tuple(size), mode="bilinear", align_corners=True)


def nearest(feature_map, size):
    return F.interpolate(feature_map, size=tuple(size), mode="nearest")


CHANGES = {
    "aligned corners of the pooled maps": ("upernet", lambda _, patch: patch(pyramid_pooling, "enlarge", aligned)),
    "aligned corners of the levels": ("upernet", lambda _, patch: patch(upernet, "enlarge", aligned)),
    "levels from the nearest cell": ("upernet", lambda _, patch: patch(upernet, "enlarge", nearest)),
    "other scales": ("upernet", lambda model, patch: patch(model.head.pooling, "scales", (1, 2, 3, 5))),
    "aligned corners of the steps": ("semantic_fpn", lambda _, patch: patch(semantic_fpn, "enlarge", aligned)),
    "no enlargement in between": ("semantic_fpn", lambda model, patch: patch(model.head.scales[3], "doublings", 0)),
}


@pytest.mark.parametrize("change", CHANGES)
@torch.no_grad()
def test_a_changed_network_is_noticed(change, monkeypatch):
    name, apply = CHANGES[change]
    golden, segmenter = golden_segmenter(name), build(name)
    apply(segmenter, monkeypatch.setattr)
    assert not is_near(segmenter(golden_maps(golden)), golden["out.logits"], 1e-4)


@pytest.mark.parametrize(
    ("changed", "part"),
    [({"mean": "labelled"}, "class"), ({"ignored": -100}, "class"), ({"auxiliary_weight": 1.0}, "auxiliary")],
)
def test_a_changed_loss_is_noticed(changed, part):
    golden = golden_segmenter("upernet")
    if "ignored" in changed:
        golden["gt"][golden["gt"] == 255] = 0
    output = build("upernet").outputs(golden_maps(golden), auxiliary=True)
    found = replace(LOSS, **changed).on_outputs(output, golden["gt"])[part]
    expected = float(golden[f"loss.{'decode' if part == 'class' else 'aux'}.loss_seg"])
    assert abs(float(found.detach()) - expected) > 1e-3 * expected
