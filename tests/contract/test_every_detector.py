"""What holds for every detector: any size, any number of objects, gradients, fixed shapes, compiling, counts."""

from dataclasses import replace

import pytest
import torch
from torch.export import Dim
from torch.utils.flop_counter import FlopCounterMode

from patchword.core.geometry.objects import Targets
from patchword.layers.dense.anchor_detector import AnchorDetector
from patchword.models.detection import DETECTORS, create_detector
from patchword.objectives.detection.rules import LOSSES, detection_loss
from patchword.objectives.detection.shared_loss import SharedLoss
from patchword.weights.export.detection import DetectorOutputs
from support.dense.keys import seeded_keys

CLASSES = 3
SMALL = {"backbone": "resnet-18", "backbone_fields": {"width": 8}, "classes": CLASSES, "frozen": 0}
RCNN, ONE_STAGE = {"width": 16, "hidden": 16}, {"width": 64}
DETR = {"width": 16, "hidden": 16, "heads": 2, "encoder_depth": 1, "decoder_depth": 2}
DETR |= {"queries": 8, "max_detections": 8}
FIELDS = {"detr": DETR, "sparse-rcnn": {**RCNN, "proposals": 20, "stages": 2}}
# The input of DETR's decoder is zero, and so are biases at first: its first self-attention and its norm return zeros.
FIRST = "decoder.blocks.0.attention"
ZERO = {
    f"{FIRST}.norm.weight",
    f"{FIRST}.sublayer.output.weight",
    *(f"{FIRST}.sublayer.projection.{kind}" for kind in ("query_key.weight", "query_key.bias", "value.weight")),
}
PARAMETERS = {  # counted with mmdet's code
    ("mask-rcnn", "resnet-50"): 44_396_336,
    ("mask-rcnn", "swin-tiny"): 47_794_602,
    ("mask-rcnn", "cswin-tiny"): 41_959_472,
    ("cascade-mask-rcnn", "resnet-50"): 82_231_538,
    ("cascade-mask-rcnn", "swin-tiny"): 85_629_804,
    ("atss", "resnet-50"): 32_295_322,
    ("atss", "swin-tiny"): 35_734_548,
    ("retinanet", "resnet-50"): 37_968_692,
    ("detr", "resnet-50"): 41_524_768,  # counted with the authors' code
    ("reppoints-v2", "resnet-50"): 42_132_528,
    ("reppoints-v2", "swin-tiny"): 44_916_202,
    ("sparse-rcnn", "resnet-50"): 106_342_888,
    ("sparse-rcnn", "swin-tiny"): 109_741_154,
}
SLOW = ("faster-rcnn", "mask-rcnn", "cascade-mask-rcnn", "retinanet", "reppoints-v2", "sparse-rcnn")
GMACS = {  # by mmdet's convention, see macs_of
    ("mask-rcnn", "resnet-50"): 259.3,
    ("mask-rcnn", "swin-tiny"): 266.6,
    ("cascade-mask-rcnn", "resnet-50"): 737.6,
    ("cascade-mask-rcnn", "swin-tiny"): 744.8,
    ("atss", "resnet-50"): 204.5,
    ("atss", "swin-tiny"): 214.3,
    ("retinanet", "resnet-50"): 238.5,
}
BACKBONES = {
    "resnet-mini": {},
    "regnety-mini": {},
    "swin-mini": {},
    "cswin-mini": {},
    "pale-mini": {},
    "pvt-mini": {},
    "cvt-mini": {},
    "vit-tiny-16": {"depth": 1, "channels": 1},
}


@pytest.fixture(params=DETECTORS)
def name(request):
    return request.param


def small(name):
    """A small detector with few proposals."""
    torch.manual_seed(0)
    detector = create_detector(name, **SMALL, **FIELDS.get(name, RCNN if "rcnn" in name else ONE_STAGE))
    if isinstance(detector, AnchorDetector):
        detector.proposer.rule = replace(detector.proposer.rule, max_boxes=20)
        detector.proposer.training_rule = replace(detector.proposer.training_rule, max_boxes=40)
    return detector


def targets(counts, size=(64, 96)):
    """Random objects, `counts` per image."""
    generator = torch.Generator().manual_seed(1)
    height, width = size
    boxes, labels, masks = [], [], []
    for count in counts:
        corner = torch.rand(count, 2, generator=generator) * torch.tensor([width - 20.0, height - 20.0])
        side = torch.rand(count, 2, generator=generator) * 16 + 4
        boxes.append(torch.cat([corner, corner + side], dim=1))
        labels.append(torch.randint(0, CLASSES, (count,), generator=generator))
        masks.append(torch.rand(count, height, width, generator=generator) > 0.5)
    return Targets.of(boxes, labels, torch.tensor([size] * len(counts)), masks)


def total_loss(detector, given, size=(64, 96)):
    images = torch.randn(len(given), 3, *size, generator=torch.Generator().manual_seed(2))
    losses = detection_loss(detector)(detector, images, given, SharedLoss(keys=seeded_keys(3)))
    assert all(loss.isfinite() for loss in losses.values()), losses
    return torch.stack(list(losses.values())).sum()


def test_the_parameters_of_a_mask_rcnn_keep_their_order():
    parts = [key.partition(".")[0] for key, _ in small("mask-rcnn").named_parameters()]
    assert list(dict.fromkeys(parts)) == ["backbone", "neck", "proposer", "stages", "masks"]  # the order of checkpoints


def test_targets_without_a_column_are_background_only(name):
    given = targets([0, 0])
    none = replace(given, **{field: getattr(given, field)[:, :0] for field in ("boxes", "labels", "valid", "masks")})
    loss = total_loss(small(name).train(), none)
    torch.testing.assert_close(loss, total_loss(small(name).train(), given))
    loss.backward()


@pytest.mark.parametrize(("detector", "backbone"), PARAMETERS)
@pytest.mark.usefixtures("quick_meta")
@torch.no_grad()
def test_counts_are_those_of_the_published_detectors(detector, backbone):
    fields = {"window_padding": "attended"} if backbone.startswith("swin") else {}
    with torch.device("meta"):
        model = create_detector(detector, backbone=backbone, **fields).eval()
    assert sum(one.numel() for one in model.parameters()) == PARAMETERS[detector, backbone]
    if (detector, backbone) in GMACS:
        assert macs_of(model) / 1e9 == pytest.approx(GMACS[detector, backbone], abs=0.06)


def macs_of(model):
    """MACs at 1280 x 800, with 1,000 boxes through each box head and 100 through each mask head."""
    with torch.device("meta"):
        images, boxes, masks = torch.empty(1, 3, 800, 1280), torch.empty(1, 1000, 4), torch.empty(1, 100, 4)
    with FlopCounterMode(display=False) as counter:
        levels = model.features(images)
        model.proposer(levels)
        for head in model.stages:
            head.pool = blank(7)
            head(levels, boxes)
        for head in model.masks:
            head.pool = blank(14)
            head(levels, masks, torch.zeros_like(masks[..., 0], dtype=torch.long))
    return counter.get_total_flops() / 2


def blank(size):
    """Features of boxes without a product, since RoIAlign is not counted."""
    return lambda levels, boxes: levels[0].new_empty(boxes.shape[1], levels[0].shape[1], size, size)


def test_every_detector_has_a_loss():
    assert LOSSES.keys() == DETECTORS.keys()


@pytest.mark.parametrize("size", [(64, 64), (50, 131)])
@torch.no_grad()
def test_an_image_of_any_size(name, size):
    detector = small(name).eval()
    found = detector(torch.randn(1, 3, *size))
    assert found.boxes.shape == (1, *found.scores.shape[1:], 4)
    assert found.boxes[found.valid].isfinite().all()
    inside = found.boxes[0, :, 2:] <= torch.tensor([size[1], size[0]])
    assert inside.all()
    assert (found.masks is not None) == ("mask" in name)


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (2, 300)])
def test_any_number_of_objects(name, counts):
    detector = small(name)
    total_loss(detector, targets(counts)).backward()
    assert all(one.grad.isfinite().all() for one in detector.parameters() if one.grad is not None)


def test_every_weight_gets_a_gradient(name):
    detector = small(name).train()
    total_loss(detector, targets((6, 9))).backward()
    unused = {key for key, one in detector.named_parameters() if one.grad is None or not one.grad.any()}
    coarse = {f"neck.output.{level}.{kind}" for level in (2, 3) for kind in ("weight", "bias")}
    if name == "detr":
        assert unused == ZERO
    else:
        assert unused <= (coarse if "rcnn" in name else set())  # no box is large enough for these levels


@pytest.mark.parametrize(
    "name", ["retinanet", "atss", "detr", "reppoints-v2", "sparse-rcnn"]
)  # other detectors draw a random key per box
def test_padding_of_targets_does_not_change_the_loss(name):
    detector, given = small(name).eval(), targets((2, 3))
    wide = Targets(
        torch.nn.functional.pad(given.boxes, (0, 0, 0, 5)),
        torch.nn.functional.pad(given.labels, (0, 5)),
        torch.nn.functional.pad(given.valid, (0, 5)),
        given.sizes,
        torch.nn.functional.pad(given.masks, (0, 0, 0, 0, 0, 5)),
    )
    assert torch.equal(total_loss(detector, given), total_loss(detector, wide))


@pytest.mark.parametrize("name", ["atss", "detr", *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)])
@torch.no_grad()
def test_detecting_compiles_as_one_graph(name):
    detector = small(name).eval()
    images = torch.randn(1, 3, 64, 64)
    torch._dynamo.reset()
    compiled = torch.compile(detector, fullgraph=True, backend="eager")
    found, expected = compiled(images), detector(images)
    for field in ("boxes", "scores", "labels", "valid"):
        assert torch.equal(getattr(found, field), getattr(expected, field)), field


@pytest.mark.parametrize("backbone", BACKBONES)
@torch.no_grad()
def test_any_backbone(backbone):
    fields = {"width": 16, "classes": 2, "hidden": 8, "backbone_fields": BACKBONES[backbone]}
    detector = create_detector("mask-rcnn", backbone=backbone, **fields).eval()
    found = detector(torch.randn(1, 1, 48, 64))
    assert found.masks.shape[-2:] == (28, 28)


@pytest.mark.parametrize("backbone", BACKBONES)
@torch.no_grad()
def test_any_backbone_of_a_detr(backbone):
    fields = {**DETR, "classes": 2, "backbone_fields": BACKBONES[backbone]}
    found = create_detector("detr", backbone=backbone, **fields).eval()(torch.randn(1, 1, 48, 64))
    assert found.boxes.shape == (1, 8, 4)
    assert found.valid.all()


@torch.no_grad()
def test_a_detr_is_exported():
    detector = small("detr").eval()
    images, sizes = torch.randn(2, 3, 64, 64), torch.tensor([[64, 64], [40, 50]])
    program = torch.export.export(
        DetectorOutputs(detector), (images, sizes), dynamic_shapes=({0: Dim("batch")}, {0: Dim("batch")})
    )
    more = torch.randn(3, 3, 64, 64), torch.tensor([[64, 64], [40, 50], [64, 33]])
    for found, expected in zip(program.module()(*more), DetectorOutputs(detector)(*more), strict=True):
        assert torch.allclose(found, expected, atol=1e-5)


@torch.no_grad()
def test_weights_of_16_bits_give_detections(name):
    found = small(name).eval().to(torch.bfloat16)(torch.randn(2, 3, 64, 96, dtype=torch.bfloat16))
    assert found.boxes.isfinite().all()
    assert found.scores.isfinite().all()
