"""The cost of detectors: equal to what torch counts, with anchors and boxes spelled out."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from patchword.analysis.cost.detection import count_detector, run_parts
from patchword.analysis.cost.segmentation import count_segmenter
from patchword.analysis.shapes import detector_tree
from patchword.core.errors import UserError
from patchword.models.detection import DETECTORS, create_detector
from patchword.models.segmentation import SEGMENTERS, create_segmenter

pytestmark = pytest.mark.usefixtures("quick_meta")
SIZE = (96, 160)
BACKBONES = {"resnet-18": {}, "swin-tiny": {"window_padding": "attended"}, "pvt-tiny": {}, "vit-tiny-16": {}}
PUBLISHED = {  # parameters and GMACs at 1280 x 800, counted with mmdet's code
    ("mask-rcnn", "resnet-50"): (44_396_336, 259.3),
    ("mask-rcnn", "swin-tiny"): (47_794_602, 266.6),
    ("cascade-mask-rcnn", "swin-tiny"): (85_629_804, 744.8),
    ("atss", "swin-tiny"): (35_734_548, 214.3),
    ("retinanet", "resnet-50"): (37_968_692, 238.5),
    ("reppoints-v2", "resnet-50"): (42_132_528, 272.2),
    ("reppoints-v2", "swin-tiny"): (44_916_202, 282.0),
    ("sparse-rcnn", "resnet-50"): (106_342_888, 168.3),
    ("sparse-rcnn", "swin-tiny"): (109_741_154, 175.6),
    ("detr", "resnet-50"): (41_524_768, 96.9),
}


def card(name, **fields):
    with torch.device("meta"):
        return create_detector(name, **fields).card


@pytest.mark.parametrize(("name", "backbone"), PUBLISHED)
def test_counts_are_those_of_the_published_detectors(name, backbone):
    fields = {"window_padding": "attended"} if backbone == "swin-tiny" else {}
    found = count_detector(card(name, backbone=backbone, **fields))
    parameters, gmacs = PUBLISHED[name, backbone]
    assert found.parameters == parameters
    assert found.macs / 1e9 == pytest.approx(gmacs, abs=0.06)


@pytest.mark.parametrize("name", DETECTORS)
def test_the_list_of_detectors_has_the_counts_of_their_default_sizes(name):
    found = count_detector(card(name))
    assert (DETECTORS[name].parameters, DETECTORS[name].macs) == (found.parameters, found.macs)


@pytest.mark.parametrize("name", SEGMENTERS)
def test_the_list_of_segmenters_has_the_counts_of_their_default_sizes(name):
    with torch.device("meta"):
        found = count_segmenter(create_segmenter(name).card)
    assert (SEGMENTERS[name].parameters, SEGMENTERS[name].macs) == (found.parameters, found.macs)


@pytest.mark.parametrize("name", DETECTORS)
def test_macs_equal_those_that_torch_counts(name):
    given = card(name, backbone="resnet-18", classes=7)
    assert count_detector(given, size=SIZE).macs == torch_macs(given)


def test_detr_at_the_size_of_most_images():
    assert count_detector(card("detr"), size=(800, 1066)).macs / 1e9 == pytest.approx(81.2, abs=0.06)


def test_parts_and_sections_of_detectors_without_anchors():
    found = count_detector(card("detr", backbone="resnet-18"), size=SIZE)
    titles = [one.title for one in found.parts()]
    assert {"encoder, layer 6", "decoder, layer 1", "learned queries", "class logits"} <= set(titles)
    assert sum(one.macs for one in found.sections()) == found.macs
    sparse = count_detector(card("sparse-rcnn", backbone="resnet-18", proposals=30), size=SIZE)
    assert (sparse.boxes, sparse.anchors) == (30, ())
    assert "box head 6, 30 boxes" in [one.title for one in sparse.parts()]


@pytest.mark.parametrize("backbone", BACKBONES)
def test_any_backbone_is_counted(backbone):
    given = card("mask-rcnn", backbone=backbone, **BACKBONES[backbone])
    assert count_detector(given, size=SIZE).macs == torch_macs(given)


@torch.no_grad()
def torch_macs(given):
    with torch.device("meta"):
        detector, images = create_detector(given.model, **given.config).eval(), torch.empty(1, 3, *SIZE)
    detector.requires_grad_(False)  # the counter cannot follow views of parameters
    with FlopCounterMode(display=False) as counter:
        run_parts(detector, images)
    return counter.get_total_flops() // 2


def test_anchors_and_boxes_are_spelled_out():
    found = count_detector(card("mask-rcnn", backbone="resnet-18"), size=(800, 1280))
    assert [one.working() for one in found.anchors][:2] == ["200 x 320 x 3 = 192,000", "100 x 160 x 3 = 48,000"]
    assert (found.boxes, found.masks) == (1000, 100)
    titles = [one.title for one in found.parts()]
    assert "neck, lateral of C2, convolution 1 x 1" in titles
    assert "head, P6 (stride 64)" in titles
    assert titles[-2:] == ["box head 1, 1,000 boxes", "mask head 1, 100 boxes"]
    workings = {line.part: line.macs.working() for line in found.lines if line.macs}
    assert workings["stages.0.class_output"] == "B x I x O = 1000 x 1024 x 81 = 82,944,000"
    assert workings["masks.0.output"].startswith("B x H x W x I x 1 x 1 x O = 100 x 28 x 28 x 256")
    scores = next(line for line in found.lines if line.part == "proposer.head.class_output")
    assert scores.macs.working() == "H x W x I x 1 x 1 x A = 200 x 320 x 256 x 1 x 1 x 3 = 49,152,000"


@pytest.mark.parametrize("name", ["cascade-mask-rcnn", "atss"])
def test_sums_agree(name):
    found = count_detector(card(name, backbone="resnet-18"), size=SIZE)
    for sums in (found.parts(), found.sections()):
        assert sum(one.macs for one in sums) == found.macs
        assert sum(one.parameters for one in sums) == found.parameters
    described = found.to_json()
    assert described["macs"]["total"] == found.macs
    assert described["boxes"] == (0 if name == "atss" else 1000)
    assert "1,000 proposals" in described["detector_convention"]


def test_one_part():
    given = card("retinanet", backbone="resnet-18")
    whole, neck = count_detector(given, size=SIZE), count_detector(given, "neck", SIZE)
    assert neck.macs == whole.below("neck").macs
    assert [one.title for one in neck.parts()][-1] == "neck, P7, convolution 3 x 3, stride 2"
    with pytest.raises(UserError, match="has no part 'nek'"):
        count_detector(given, "nek", SIZE)


def test_batch_norms_without_parameters():
    kept, dropped = (card("mask-rcnn", backbone="resnet-50", batch_norms=kind) for kind in ("evaluate", "buffers"))
    assert count_detector(kept, size=SIZE).parameters - count_detector(dropped, size=SIZE).parameters == 53_120


def test_the_tree_has_shapes_of_heads():
    tree = detector_tree(card("mask-rcnn", backbone="resnet-18"), SIZE)
    parts = {part.name: part for part in tree.children}
    assert tree.input == (1, 3, *SIZE)
    assert parts["stages"].children[0].children[-1].output == (1000, 320)
    assert parts["masks"].children[0].output == (1, 100, 28, 28)
