"""Outputs of timm's Mixer, ResNet and RegNetY, kept in files, so that timm need not be installed to compare with it."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.weights.names.vision import mixer, regnet, resnet
from support.helpers import difference, randomise

TABLES = {"mixer": mixer, "resnet": resnet, "regnety": regnet}


@pytest.fixture(params=TABLES)
def name(request):
    return request.param


@pytest.fixture
def golden(name):
    """timm's weights, the input, the output and the sizes."""
    with safe_open(Path(__file__).with_name(f"{name}.safetensors"), framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
        config = json.loads(file.metadata()["config"])
    weights = {key.removeprefix("weights."): tensor for key, tensor in tensors.items() if key.startswith("weights.")}
    return weights, tensors["input"], tensors["output"], config


@pytest.fixture
def loaded(golden, tmp_path):
    save_file(golden[0], tmp_path / "timm.safetensors")
    return patchword.load(tmp_path / "timm.safetensors")


def timm_table(name):
    return next(layout for layout in TABLES[name].LAYOUTS if layout.library == "timm")


@torch.no_grad()
def test_output_equals_timms(golden, loaded):
    _, images, output, config = golden
    printed = {field: tuple(value) if isinstance(value, list) else value for field, value in config.items()}
    assert loaded.card.config.items() >= printed.items()  # all of it read off the shapes
    assert difference(loaded(images), output) < 1e-5


PARTS = {
    "mixer": "stages.0.encoder.blocks.1.token_mixing.sublayer.feed_forward.up.weight",
    "resnet": "stages.2.blocks.1.branch.second.norm.running_mean",
    "regnety": "stages.3.blocks.1.branch.weighing.squeeze.weight",
}


@torch.no_grad()
def test_the_comparison_fails_when_units_are_exchanged(name, golden, loaded):
    _, images, output, _ = golden
    part = loaded.state_dict()[PARTS[name]]
    part.copy_(part.roll(1, 0))
    assert difference(loaded(images), output) > 1e-4


def test_under_timms_names_the_file_is_the_same_again(name, golden, loaded):
    weights = golden[0]
    again = timm_table(name).to_theirs(loaded.state_dict())
    assert again.keys() == weights.keys()
    assert [key for key in weights if not torch.equal(again[key], weights[key])] == []


def test_a_batch_norm_without_its_counter_loads(name, golden, loaded, tmp_path):
    """Files of old versions of PyTorch lack it."""
    older = {key: tensor for key, tensor in golden[0].items() if not key.endswith("num_batches_tracked")}
    save_file(older, tmp_path / "older.safetensors")
    again = patchword.load(tmp_path / "older.safetensors")
    assert torch.equal(again(golden[1]), loaded(golden[1]))


def test_a_mixer_saved_for_timm(tmp_path):
    """create_model has no name for these sizes, but timm's class takes them."""
    model = randomise(patchword.create("mixer-mini", image=(8, 12), width=49, hidden=99)).eval()
    folder = patchword.save(model, tmp_path, layout="timm")
    config = json.loads((folder / "config.json").read_text())
    assert "architecture" not in config
    assert config["model_args"].items() >= {"img_size": [8, 12], "patch_size": 4, "embed_dim": 49}.items()
    assert [int(share * 49) for share in config["model_args"]["mlp_ratio"]] == [128, 99]
    again, images = patchword.load(folder), torch.randn(2, 1, 8, 12)
    assert again.card == model.card
    assert torch.equal(again(images), model(images))


def test_a_resnet_saved_for_timm(tmp_path):
    model = randomise(patchword.create("resnet-18", depths=(1, 1, 1, 1), classes=3, image=(40, 56))).eval()
    folder = patchword.save(model, tmp_path, layout="timm")
    config = json.loads((folder / "config.json").read_text())
    assert (config["architecture"], config["num_classes"]) == ("resnet18", 3)
    assert config["model_args"] == {"layers": [1, 1, 1, 1], "in_chans": 3}
    assert config["pretrained_cfg"]["input_size"] == [3, 40, 56]
    again = patchword.load(folder)
    assert again.card.config == model.card.config
    assert load_file(folder / "model.safetensors").keys() >= {"conv1.weight", "layer4.0.downsample.1.running_var"}


@pytest.mark.parametrize(
    ("model", "architecture"),
    [
        ("resnet-34", "resnet18"),
        ("resnet-101", "resnet50"),
        ("regnety-4gf", "regnety_040"),
        ("regnety-8gf", "regnety_080"),
        ("regnety-16gf", "regnety_160"),
        ("mixer-small-16", "mixer_s16_224"),
        ("mixer-large-32", "mixer_l32_224"),
        ("mixer-base-8", None),
    ],
)
def test_the_name_that_timm_builds_a_model_by(model, architecture):
    family, variant = REGISTRY.find(model)
    card = Card(model, {**variant.config.__dict__})
    assert timm_table(family.name).write_config(card).get("architecture") == architecture


@pytest.mark.parametrize(
    ("model", "overrides", "reason"),
    [
        ("resnet-18", {"width": 8}, "expected width 64, got width 8"),
        ("resnet-18", {"depths": (1, 1)}, "four stages"),
        ("regnety-mini", {}, "no RegNetY of these sizes"),
        ("mixer-mini", {"activation": "gelu-tanh"}, "expected activation gelu"),
    ],
)
def test_what_timm_cannot_build_is_refused(model, overrides, reason, tmp_path):
    with pytest.raises(UserError, match=reason):
        patchword.save(patchword.create(model, **overrides), tmp_path / "model", layout="timm")
    assert not (tmp_path / "model").exists()
