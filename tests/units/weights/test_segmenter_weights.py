"""Saving and loading of segmenters, and the weights of classifiers in their backbones."""

import json
from dataclasses import replace

import pytest
import torch

import patchword
from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.models.segmentation import SEGMENTERS, create_segmenter
from patchword.weights import load_backbone, load_detector, load_model, load_segmenter
from support.helpers import randomise, unequal_tensors

RESNET = {"backbone": "resnet-18", "backbone_fields": {"width": 4, "depths": (1, 1, 1, 1)}}
SWIN = {"backbone": "swin-mini", "backbone_fields": {"width": 8, "depths": (1, 1), "heads": (1, 2)}}
LABELS = ("road", "sky", "tree")
IMAGES = torch.randn(1, 3, 32, 40, generator=torch.Generator().manual_seed(1))


def small(name="upernet", fields=RESNET, **others):
    """A segmenter with random weights, in evaluation mode."""
    torch.manual_seed(0)
    return randomise(create_segmenter(name, **{"width": 8, "classes": 3, **fields, **others})).eval()


@pytest.mark.parametrize("fields", [RESNET, SWIN, {**RESNET, "deep_stem": True, "batch_norms": "buffers"}])
@pytest.mark.parametrize("name", SEGMENTERS)
@torch.no_grad()
def test_a_round_trip_is_bit_equal(name, fields, tmp_path):
    segmenter = small(name, fields)
    normalization = replace(segmenter.card.normalization, mean=tuple(0.1 for _ in segmenter.card.normalization.mean))
    segmenter.card = replace(segmenter.card, labels=LABELS, normalization=normalization)
    again = patchword.load(patchword.save(segmenter, tmp_path))
    assert isinstance(again, Segmenter)
    assert not again.training
    assert again.card == segmenter.card
    assert unequal_tensors(again, segmenter) == []
    images = IMAGES if fields is not SWIN else IMAGES[:, :1]
    assert torch.equal(again(images), segmenter(images))


@pytest.mark.parametrize("name", SEGMENTERS)
def test_another_number_of_classes_gets_new_outputs(name, tmp_path):
    segmenter = small(name)
    segmenter.card = replace(segmenter.card, labels=LABELS)
    again = load_segmenter(patchword.save(segmenter, tmp_path), classes=5)
    assert again(IMAGES).shape[1] == 5
    assert again.card.labels == ()
    assert unequal_tensors(again, segmenter) == sorted(key for key in segmenter.state_dict() if ".class_output." in key)


def test_a_segmenter_is_no_other_model(tmp_path):
    folder = patchword.save(small(), tmp_path / "segmenter")
    with pytest.raises(UserError, match="weights of a segmenter, 'upernet'"):
        load_model(folder)
    with pytest.raises(UserError, match="has no detector"):
        load_detector(folder)
    with pytest.raises(UserError, match="the source holds another model"):
        patchword.load(folder, "semantic-fpn")
    classifier = patchword.save(patchword.create("resnet-mini"), tmp_path / "classifier")
    with pytest.raises(UserError, match="has no segmenter"):
        load_segmenter(classifier)


def test_an_unknown_field_of_a_card_is_an_error(tmp_path):
    folder = patchword.save(small(), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["config"]["crops"] = 3
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="no field 'crops'"):
        patchword.load(folder)


def test_create_finds_segmenters_by_name():
    assert isinstance(patchword.create("semantic-fpn", width=8, classes=2, **RESNET), Segmenter)
    with pytest.raises(UserError, match="is a segmenter"):
        patchword.create("upernet", pretrained=True)
    with pytest.raises(UserError, match="upernet"):
        patchword.create("upernett")
    with pytest.raises(UserError, match="no segmenter is called 'unet'"):
        create_segmenter("unet")


@torch.no_grad()
def test_a_classifier_fills_the_backbone(tmp_path):
    torch.manual_seed(0)
    model = randomise(patchword.create("resnet-18", **RESNET["backbone_fields"], classes=5)).eval()
    model.card = replace(model.card, normalization=Normalization((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))
    segmenter = small()
    summary = load_backbone(segmenter, patchword.save(model, tmp_path))
    assert summary.left == ()
    assert segmenter.card.normalization == model.card.normalization
    for one, other in zip(segmenter.backbone(IMAGES), model.backbone()(IMAGES), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(UserError, match="deep_stem=True"):
        load_backbone(small(deep_stem=True), tmp_path)
