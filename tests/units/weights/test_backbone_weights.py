"""The weights of image classifiers in the backbones of detectors."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.layers.dense.backbones import NormedMaps, SimplePyramid
from patchword.models.detection import create_detector
from patchword.weights import load_backbone
from support.helpers import randomise

SIZES = {
    "resnet-18": {"width": 4, "depths": (1, 1, 1, 1)},
    "swin-tiny": {"width": 8, "depths": (1, 1), "heads": (1, 2), "image": 56},
    "cswin-mini": {"channels": 3},
    "pvt-mini": {"channels": 3},
    "vit-tiny-16": {"depth": 1, "width": 32, "heads": 2, "image": 64},
}
SMALL = {"width": 16, "hidden": 8, "classes": 2}
IMAGES = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(1))


def classifier(name, **others):
    torch.manual_seed(0)
    model = randomise(patchword.create(name, **{**SIZES[name], "classes": 5, **others})).eval()
    model.card = replace(model.card, normalization=Normalization((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))
    return model


def detector(name, **others):
    return create_detector("mask-rcnn", backbone=name, backbone_fields=SIZES[name], **SMALL, **others).eval()


def inner(backbone):
    return backbone.backbone if isinstance(backbone, NormedMaps | SimplePyramid) else backbone


@pytest.mark.parametrize("name", SIZES)
@torch.no_grad()
def test_the_maps_are_those_of_the_classifier(name, tmp_path):
    model, found = classifier(name), detector(name)
    summary = load_backbone(found, patchword.save(model, tmp_path))
    assert summary.model == name
    if name not in ("pvt-mini", "vit-tiny-16"):  # whose detectors have no [CLS]
        for one, other in zip(inner(found.backbone)(IMAGES), model.backbone()(IMAGES), strict=True):
            assert torch.equal(one, other)
    assert found.card.normalization == model.card.normalization
    own = {key for key in found.backbone.state_dict() if ".stages." not in f".{key}"}
    assert set(summary.left) == {f"backbone.{key}" for key in own}
    assert set(summary.loaded) | set(summary.left) == {f"backbone.{key}" for key in found.backbone.state_dict()}


def test_norms_of_the_maps_start_at_one(tmp_path):
    found = detector("swin-tiny")
    load_backbone(found, patchword.save(classifier("swin-tiny"), tmp_path))
    assert all(norm.weight.eq(1).all() and norm.bias.eq(0).all() for norm in found.backbone.norms)


@pytest.mark.parametrize("kind", ["train", "evaluate", "buffers"])
def test_statistics_come_along_and_stages_stay_frozen(kind, tmp_path):
    model, found = classifier("resnet-18"), detector("resnet-18", batch_norms=kind)
    key = "stages.0.stem.first.norm.running_mean"
    flags = [one.requires_grad for one in found.parameters()]
    load_backbone(found, patchword.save(model, tmp_path))
    assert torch.equal(found.backbone.state_dict()[key], model.state_dict()[key])
    assert model.state_dict()[key].any()
    assert [one.requires_grad for one in found.parameters()] == flags


def test_a_file_without_a_head(tmp_path):
    folder, found = patchword.save(classifier("resnet-18"), tmp_path), detector("resnet-18")
    tensors = load_file(folder / "model.safetensors")
    save_file(
        {key: value for key, value in tensors.items() if not key.startswith("head.")}, folder / "model.safetensors"
    )
    load_backbone(found, folder)
    assert torch.equal(found.backbone.stages[0].stem.first.norm.weight, tensors["stages.0.stem.first.norm.weight"])


def test_another_layout(tmp_path):
    model, found = classifier("swin-tiny"), detector("swin-tiny", window_padding="attended")
    load_backbone(found, patchword.save(model, tmp_path, layout="huggingface"))
    table = model.state_dict()["stages.0.encoder.blocks.0.attention.sublayer.patterns.0.position.table"]
    assert any(torch.equal(one, table) for one in found.state_dict().values() if one.shape == table.shape)


def test_tables_are_resized(tmp_path):
    found = detector("swin-tiny")
    load_backbone(found, patchword.save(classifier("swin-tiny", window=5, image=40), tmp_path))
    table = found.state_dict()[
        "backbone.backbone.stages.0.encoder.blocks.0.attention.sublayer.patterns.0.position.table"
    ]
    assert table.shape == (169, 1)
    positions = detector("vit-tiny-16")
    load_backbone(positions, patchword.save(classifier("vit-tiny-16", image=96), tmp_path / "vit"))
    assert positions.state_dict()["backbone.backbone.stages.0.positions.table"].shape[1] == 16


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda: classifier("vit-tiny-16"), "expected 'resnet-18', got 'vit-tiny-16'"),
        (lambda: classifier("resnet-18", depths=(1, 1, 2, 1)), r"depths: expected \(1, 1, 1, 1\), got \(1, 1, 2, 1\)"),
        (lambda: classifier("resnet-18", channels=1), "channels: expected 3, got 1"),
        (lambda: detector("resnet-18"), "expected 'resnet-18', got 'mask-rcnn'"),
    ],
)
def test_other_weights_are_refused(source, message, tmp_path):
    found = detector("resnet-18")
    before = {key: value.clone() for key, value in found.state_dict().items()}
    with pytest.raises(UserError, match=message):
        load_backbone(found, patchword.save(source(), tmp_path))
    assert all(torch.equal(value, before[key]) for key, value in found.state_dict().items())


def test_the_summary_is_one_sentence(tmp_path):
    found = detector("swin-tiny")
    text = str(load_backbone(found, patchword.save(classifier("swin-tiny"), tmp_path)))
    assert text.startswith(f"{len(found.backbone.backbone.state_dict())} tensors of 'swin-tiny' loaded")
    assert text.endswith("4 of the backbone that it does not have are kept")
