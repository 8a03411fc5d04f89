"""Saving and loading of detectors."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.layers.dense.detector import Detector
from patchword.models.detection import DETECTORS, create_detector
from patchword.weights import load_detector, load_model
from support.helpers import randomise, tiny, unequal_tensors

RESNET = {"backbone": "resnet-18", "backbone_fields": {"width": 4, "depths": (1, 1, 1, 1)}, "classes": 3}
SWIN = {"backbone": "swin-mini", "backbone_fields": {"width": 8, "depths": (1, 1), "heads": (1, 2)}, "classes": 3}
HEADS = {True: {"width": 8, "hidden": 8}, False: {"width": 64, "depth": 1}}
QUERIES = {
    "detr": {"width": 8, "hidden": 8, "heads": 2, "encoder_depth": 1, "decoder_depth": 2},
    "sparse-rcnn": {"width": 8, "hidden": 8, "inner": 4, "proposals": 10, "stages": 2},
    "reppoints-v2": {"width": 32, "groups": 8, "corner_width": 16, "depth": 1, "rounds": 1},
}
LABELS = ("bag", "coat", "dress")


def small(name="mask-rcnn", fields=RESNET, **others):
    """A detector with random weights, in evaluation mode."""
    torch.manual_seed(0)
    return randomise(create_detector(name, **{**fields, **QUERIES.get(name, HEADS["rcnn" in name]), **others})).eval()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved Mask R-CNN."""
    return patchword.save(small(), tmp_path_factory.mktemp("saved"))


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of it, which a test may change."""
    return Path(shutil.copytree(saved, tmp_path / "detector"))


def rewrite(folder, change):
    """Change the tensors of a saved folder."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def describe(folder, change):
    """Change config.json of a saved folder."""
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("name", DETECTORS)
@torch.no_grad()
def test_a_round_trip_is_bit_equal(name, tmp_path):
    detector = small(name)
    detector.card = replace(detector.card, labels=LABELS, normalization=Normalization((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))
    again = patchword.load(patchword.save(detector, tmp_path / "detector"))
    assert isinstance(again, Detector)
    assert not again.training
    assert again.card == detector.card
    assert unequal_tensors(again, detector) == []
    images = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    found, expected = again(images), detector(images)
    assert torch.equal(found.boxes, expected.boxes)
    assert torch.equal(found.scores, expected.scores)


@pytest.mark.parametrize(
    ("fields", "others"),
    [
        (SWIN, {"window_padding": "attended"}),
        (RESNET, {"batch_norms": "buffers"}),
        ({"backbone": "pvt-mini", "classes": 3}, {}),
        ({"backbone": "vit-tiny-16", "backbone_fields": {"depth": 1, "width": 32, "heads": 2}, "classes": 3}, {}),
    ],
)
def test_every_kind_of_backbone(fields, others, tmp_path):
    detector = small(fields=fields, **others)
    again = load_detector(patchword.save(detector, tmp_path))
    assert again.card == detector.card
    assert unequal_tensors(again, detector) == []


def test_a_folder_holds_weights_and_config(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    config = json.loads((folder / "config.json").read_text())
    assert (config["library"], config["model"]) == ("patchword", "mask-rcnn")
    assert config["config"]["backbone_fields"] == {"width": 4, "depths": [1, 1, 1, 1]}


def test_one_file_describes_itself(folder):
    assert patchword.load(folder / "model.safetensors").card.model == "mask-rcnn"


def test_frozen_stages_stay_frozen(folder):
    created, again = small(), patchword.load(folder)
    flags = {name: weight.requires_grad for name, weight in created.named_parameters()}
    assert {name: weight.requires_grad for name, weight in again.named_parameters()} == flags
    assert len(set(flags.values())) == 2


def test_a_detector_has_the_normalization_of_its_backbone():
    with torch.device("meta"):
        model = patchword.create("resnet-18")
        assert create_detector("atss", backbone="resnet-18").card.normalization == model.card.normalization


def outputs_with_classes(name: str, detector: Detector) -> set[str]:
    """The layers whose weights have another shape with other classes."""
    stages = range(len(getattr(detector, "stages", ())))
    return {
        "detr": {"class_output"},
        "reppoints-v2": {"head.class_output", "head.semantic_output"},
        "sparse-rcnn": {f"stages.{n}.class_output" for n in stages},
    }.get(name) or (
        {f"stages.{n}.{layer}_output" for n in stages for layer in ("class", "box")}
        | {f"masks.{n}.output" for n in range(len(detector.masks))}
        or {"proposer.head.class_output"}
    )


@pytest.mark.parametrize("name", DETECTORS)
def test_other_classes_get_new_outputs(name, tmp_path):
    detector = small(name)
    detector.card = replace(detector.card, labels=LABELS)
    other = load_detector(patchword.save(detector, tmp_path), classes=7)
    assert (other.card.config["classes"], other.card.labels) == (7, ())
    found, given = other.state_dict(), detector.state_dict()
    new = sorted(key for key, value in found.items() if value.shape != given[key].shape)
    assert {key.rpartition(".")[0] for key in new} == outputs_with_classes(name, detector)
    assert unequal_tensors(other, detector) == new


def test_tables_are_resized_for_another_image(tmp_path):
    fields = {"backbone": "vit-tiny-16", "classes": 3}
    size = {"depth": 1, "width": 32, "heads": 2}
    detector = small(fields=fields, backbone_fields={**size, "image": 64})
    other = load_detector(patchword.save(detector, tmp_path), backbone_fields={**size, "image": 96})
    key = "backbone.backbone.stages.0.positions.table"
    assert detector.state_dict()[key].shape[1] == 16
    assert other.state_dict()[key].shape[1] == 36


def test_half_precision_weights_are_widened(folder):
    rewrite(folder, lambda tensors: tensors.update({key: value.half() for key, value in tensors.items()}))
    assert {one.dtype for one in patchword.load(folder).parameters()} == {torch.float32}


KEY = "stages.0.class_output.weight"
CHANGES = {
    f"missing     {KEY}": lambda tensors: tensors.pop(KEY),
    "unexpected  spare": lambda tensors: tensors.update(spare=torch.ones(1)),
    f"misshapen   {KEY}": lambda tensors: tensors.update({KEY: torch.ones(3, 8)}),
    "non-finite": lambda tensors: tensors[KEY].fill_(float("nan")),
}


@pytest.mark.parametrize("overrides", [{}, {"classes": 5}])
@pytest.mark.parametrize("message", CHANGES)
def test_bad_tensors_are_refused(message, overrides, folder):
    rewrite(folder, CHANGES[message])
    with pytest.raises(UserError, match=message):
        patchword.load(folder, **overrides)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda config: config["config"].update(colour="red"), "has no field 'colour'"),
        (lambda config: config["config"].update(classes=-1), "field 'classes'"),
        (lambda config: config["config"].update(backbone="none"), "no model is called 'none'"),
        (lambda config: config["config"].update(backbone_fields={"depths": [10**9] * 4}), "does not fit its config"),
        (
            lambda config: config["config"].update(layers=10**9),
            "field 'layers' of model 'mask-rcnn': expected at most 16,777,216",
        ),
        (lambda config: config["config"].update(backbone_fields=3), "field 'backbone_fields'"),
        (lambda config: config.pop("labels"), "not a patchword card"),
        (lambda config: config.update(model="yolo"), "no model is called 'yolo'"),
    ],
)
def test_bad_configs_are_refused(change, message, folder):
    describe(folder, change)
    with pytest.raises(UserError, match=message):
        patchword.load(folder)


def test_a_card_without_newer_fields_has_their_defaults(folder):
    describe(folder, lambda config: config["config"].pop("max_size"))
    assert patchword.load(folder).card.config["max_size"] == 1333


def test_wrong_overrides_are_refused(folder):
    with pytest.raises(UserError, match="has no field 'clases'"):
        patchword.load(folder, clases=3)
    with pytest.raises(UserError, match="holds another model"):
        patchword.load(folder, "atss")


def test_the_other_kind_is_refused(folder, tmp_path):
    with pytest.raises(UserError, match="weights of a detector, 'mask-rcnn'"):
        load_model(folder)
    with pytest.raises(UserError, match="has no detector"):
        load_detector(patchword.save(tiny(), tmp_path / "model"))


def test_other_layouts_are_refused(tmp_path):
    with pytest.raises(UserError, match="huggingface has no model like 'mask-rcnn'"):
        patchword.save(small(), tmp_path, layout="huggingface")
