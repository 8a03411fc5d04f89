"""DETR by its name: mistakes, what is frozen, initialization, padding."""

import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.layers.dense.backbones import SimplePyramid

SMALL = {"backbone": "resnet-18", "backbone_fields": {"width": 8}, "classes": 3, "width": 16, "hidden": 16, "heads": 2}
SIZES = {"queries": 5, "max_detections": 5, "encoder_depth": 1, "decoder_depth": 2}


@pytest.mark.usefixtures("quick_meta")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"queries": 20}, "set model.max_detections=20"),
        ({"width": 250}, "cannot be shared by 8 heads"),
        ({"width": 250, "heads": 5}, "multiple of 4"),
        ({"querys": 5}, "did you mean 'queries'"),
    ],
)
def test_a_mistake_is_a_message(fields, message):
    with torch.device("meta"), pytest.raises(UserError) as raised:
        patchword.create("detr", **fields)
    assert message in str(raised.value)


@pytest.mark.usefixtures("quick_meta")
def test_stem_and_first_stage_are_frozen_and_batch_norms_have_no_parameters():
    with torch.device("meta"):
        detector = patchword.create("detr")
    frozen = {name.split(".")[2] for name, one in detector.named_parameters() if not one.requires_grad}
    assert frozen == {"0"}
    assert not any("norm" in name for name, _ in detector.backbone.named_parameters())


def test_a_vit_has_no_pyramid():
    fields = {"backbone_fields": {"depth": 1}, "classes": 2}
    with torch.device("meta"):
        detector = patchword.create("detr", backbone="vit-tiny-16", **fields)
    assert not isinstance(detector.backbone, SimplePyramid)
    assert detector.backbone.strides == (16,)


def test_matrices_of_attention_start_as_the_authors_fused_one():
    torch.manual_seed(0)
    detector = patchword.create("detr", **SMALL | {"width": 64}, **SIZES)
    for projection in (
        detector.encoder.blocks[0].attention.sublayer.projection.query_key,
        detector.decoder.blocks[1].memory.sublayer.projection.key,
    ):
        bound = (6 / (4 * 64)) ** 0.5
        assert 0.98 * bound < float(projection.weight.detach().abs().max()) <= bound
        assert not projection.bias.any()
    assert float(detector.queries.weight.detach().std()) == pytest.approx(1, abs=0.15)


@torch.no_grad()
def test_values_in_the_padding_do_not_matter():
    torch.manual_seed(0)
    detector = patchword.create("detr", **SMALL, **SIZES).eval()
    feature_map = torch.randn(1, detector.neck.in_channels, 4, 5)
    sizes = torch.tensor([[70, 90]])  # three rows and three columns of cells
    levels = detector.with_pixels(feature_map, (128, 160))
    expected = detector.detect(levels, sizes)
    changed = feature_map.clone()
    changed[..., 3:, :], changed[..., 3:] = 7.0, -9.0
    found = detector.detect(detector.with_pixels(changed, (128, 160)), sizes)
    assert torch.allclose(found.boxes, expected.boxes, atol=1e-4)
    assert (found.boxes[..., 2] <= 90).all()
    changed[..., 0, 0] = 7.0
    assert not torch.allclose(detector.detect(detector.with_pixels(changed, (128, 160)), sizes).boxes, expected.boxes)


@torch.no_grad()
def test_an_image_is_detected_alike_in_a_padded_batch():
    torch.manual_seed(0)
    detector = patchword.create("detr", **SMALL, **SIZES).eval()
    small, large = torch.randn(1, detector.neck.in_channels, 2, 3), torch.randn(1, detector.neck.in_channels, 4, 5)
    alone = detector.detect(detector.with_pixels(small, (64, 96)), torch.tensor([[64, 96]]))
    batch = torch.cat([torch.nn.functional.pad(small, (0, 2, 0, 2)), large])
    both = detector.detect(detector.with_pixels(batch, (128, 160)), torch.tensor([[64, 96], [128, 160]]))
    assert torch.allclose(both.boxes[0], alone.boxes[0], atol=1e-3)
    assert torch.allclose(both.scores[0], alone.scores[0], atol=1e-5)
