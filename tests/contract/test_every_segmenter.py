"""What holds for every segmenter: any size, any backbone, gradients, fixed shapes, compiling, counts."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from patchword.analysis.cost.segmentation import count_segmenter
from patchword.analysis.shapes import segmenter_tree
from patchword.core.errors import UserError
from patchword.layers.dense.segmentation.deep_stem import DeepStem
from patchword.models.segmentation import SEGMENTERS, create_segmenter
from patchword.objectives.segmentation.loss import segmentation_loss

CLASSES = 3
SMALL = {"backbone": "resnet-18", "backbone_fields": {"width": 8}, "classes": CLASSES, "frozen": 0, "width": 16}
PUBLISHED = {  # counted with mmseg's code: fields, parameters, size, GMACs and by how much they may differ
    ("upernet", "swin-tiny"): ({"window_padding": "attended"}, 59_941_862, (512, 2048), 944.4, 0.1),
    ("semantic-fpn", "resnet-50"): ({"deep_stem": True}, 28_514_806, (512, 512), 45.5, 0.06),
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


@pytest.fixture(params=SEGMENTERS)
def name(request):
    return request.param


def small(name, **others):
    torch.manual_seed(0)
    return create_segmenter(name, **{**SMALL, **others})


def batch(count=2, size=(64, 96)):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(count, 3, *size, generator=generator)
    labels = torch.randint(0, CLASSES, (count, *size), generator=generator)
    labels[:, :7] = 255
    return images, labels


def total_loss(segmenter, images, labels):
    losses = segmentation_loss(segmenter)(segmenter, images, labels)
    assert all(loss.isfinite() for loss in losses.values()), losses
    return torch.stack(list(losses.values())).sum()


@pytest.mark.parametrize(("segmenter", "backbone"), PUBLISHED)
@pytest.mark.usefixtures("quick_meta")
@torch.no_grad()
def test_counts_are_those_of_the_published_segmenters(segmenter, backbone):
    fields, parameters, size, gmacs, near = PUBLISHED[segmenter, backbone]
    with torch.device("meta"):
        model = create_segmenter(segmenter, backbone=backbone, **fields).eval()
        images = torch.empty(1, 3, *size)
    assert sum(one.numel() for one in model.parameters()) == parameters
    with FlopCounterMode(display=False) as counter:
        model(images)
    assert counter.get_total_flops() / 2e9 == pytest.approx(gmacs, abs=near)
    cost = count_segmenter(model.card, size=size)
    assert cost.parameters == parameters
    assert cost.macs / 1e9 == pytest.approx(gmacs, abs=near)


@pytest.mark.usefixtures("quick_meta")
def test_parts_add_up(name):
    card = small(name).card
    cost = count_segmenter(card, size=(64, 96))
    for sums in (cost.parts(), cost.sections()):
        assert sum(one.macs for one in sums) == cost.macs
        assert sum(one.parameters for one in sums) == cost.parameters
    assert count_segmenter(card, "head", (64, 96)).macs == cost.below("head").macs
    root = segmenter_tree(card, (64, 96))
    assert root.parameters == cost.parameters
    assert {"backbone", "head"} <= {part.name for part in root.children}


@pytest.mark.parametrize("size", [(64, 64), (50, 131), (33, 40)])
@torch.no_grad()
def test_an_image_of_any_size(name, size):
    segmenter = small(name).eval()
    images = torch.randn(2, 3, *size)
    logits = segmenter(images)
    assert logits.shape[:2] == (2, CLASSES)
    assert logits.dtype == torch.float32
    assert all(-(-side // 4) == cells for side, cells in zip(size, logits.shape[-2:], strict=True))
    found = segmenter.segment(images)
    assert found.shape == (2, *size)
    assert found.dtype == torch.int64
    assert segmenter.segment(images, size=(20, 30)).shape == (2, 20, 30)


def test_every_weight_gets_a_gradient(name):
    segmenter = small(name).train()
    total_loss(segmenter, *batch()).backward()
    unused = {key for key, one in segmenter.named_parameters() if one.grad is None or not one.grad.any()}
    assert unused == set()


def test_the_auxiliary_head_runs_in_training_or_if_asked(name):
    segmenter, images = small(name), batch()[0]
    has_one = name == "upernet"
    assert (segmenter.train().outputs(images).auxiliary is not None) == has_one
    assert (segmenter.eval().outputs(images, auxiliary=True).auxiliary is not None) == has_one
    assert segmenter.outputs(images).auxiliary is None
    assert len(segmenter.class_outputs()) == 1 + has_one
    assert all(layer.out_channels == CLASSES for layer in segmenter.class_outputs())


def test_images_of_a_batch_do_not_depend_on_each_other(name):
    segmenter, (images, _) = small(name).eval(), batch()
    with torch.no_grad():
        both, one = segmenter(images), segmenter(images[:1])
    torch.testing.assert_close(both[:1], one)


def test_a_step_in_bfloat16(name):
    segmenter, (images, labels) = small(name).train(), batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = segmenter.outputs(images)
        loss = segmentation_loss(segmenter).on_outputs(output, labels)["class"]
    assert output.logits.dtype == torch.float32
    loss.backward()
    assert all(one.grad.isfinite().all() for one in segmenter.head.parameters())


@pytest.mark.parametrize("training", [False, True])
def test_it_compiles_as_one_graph(name, training):
    segmenter, (images, labels) = small(name, head_dropout=0.0).train(training), batch()
    torch._dynamo.reset()
    with torch.set_grad_enabled(training):
        compiled = torch.compile(segmenter.outputs, fullgraph=True, backend="eager")
        found, expected = compiled(images), segmenter.outputs(images)
        torch.testing.assert_close(found.logits, expected.logits)
        loss = segmentation_loss(segmenter)
        compiled_loss = torch.compile(loss.on_outputs, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled_loss(found, labels)["class"], loss.on_outputs(expected, labels)["class"])


@pytest.mark.parametrize("backbone", BACKBONES)
def test_any_backbone(name, backbone):
    """A backbone of three maps, such as CvT, has three levels; a ViT has the four of a simple pyramid."""
    fields = {"width": 16, "classes": CLASSES, "backbone_fields": BACKBONES[backbone]}
    segmenter = create_segmenter(name, backbone=backbone, **fields).train()
    images = torch.randn(2, 1, 48, 64)
    stride = segmenter.backbone.strides[0]
    output = segmenter.outputs(images)
    assert output.logits.shape[-2:] == (-(-48 // stride), -(-64 // stride))
    if name == "upernet":
        assert segmenter.auxiliary.level == len(segmenter.backbone.widths) - 2
    output.logits.square().sum().backward()
    assert all(one.grad is not None for one in segmenter.head.parameters())


def test_one_image_per_step_is_an_error_of_pyramid_pooling():
    images, labels = batch(1)
    with pytest.raises(UserError, match="one image per step"):
        total_loss(small("upernet").train(), images, labels)
    total_loss(small("semantic-fpn").train(), images, labels).backward()


def test_the_stem_of_mmseg():
    segmenter = small("semantic-fpn", deep_stem=True, frozen=1, batch_norms="evaluate")
    stem = segmenter.backbone.stages[0].stem
    assert isinstance(stem, DeepStem)
    assert not any(one.requires_grad for one in stem.parameters())
    assert segmenter(batch()[0]).shape == (2, CLASSES, 16, 24)
    mean = stem.first.norm.running_mean.clone()
    segmenter.train()(batch()[0])
    assert torch.equal(stem.first.norm.running_mean, mean)
    for backbone in ("swin-mini", "resnet-mini", "regnety-mini"):
        with pytest.raises(UserError, match="deep_stem"):
            create_segmenter("upernet", backbone=backbone, deep_stem=True)


def test_wrong_sizes_are_errors():
    with pytest.raises(UserError, match="no field 'depth'"):
        create_segmenter("upernet", depth=3)
    with pytest.raises(UserError, match="field 'head_dropout'"):
        create_segmenter("upernet", head_dropout=1.0)
    with pytest.raises(UserError, match="field 'scales'"):
        create_segmenter("upernet", scales=(0,))
