"""Outputs of timm's own code, kept in files, so that timm need not be installed to compare with it."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import patchword
from helpers import assert_sharp, difference, swap_heads

MODELS = {"vit": "vit-tiny-16", "deit-distilled": "deit-tiny-distilled"}


@pytest.fixture(params=MODELS)
def golden(request):
    """The registry name, timm's weights, the input, the output and the sizes."""
    with safe_open(Path(__file__).with_name(f"{request.param}.safetensors"), framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
        config = json.loads(file.metadata()["config"])
    weights = {key.removeprefix("weights."): tensor for key, tensor in tensors.items() if key.startswith("weights.")}
    return MODELS[request.param], weights, tensors["input"], tensors["output"], config


@pytest.fixture
def loaded(golden, tmp_path):
    name, weights, _, _, config = golden
    save_file(weights, tmp_path / "timm.safetensors")
    return patchword.load(tmp_path / "timm.safetensors", model=name, heads=config["heads"])


@torch.no_grad()
def test_output_equals_timms(golden, loaded):
    _, _, images, output, config = golden
    assert loaded.card.config.items() >= {key: config[key] for key in loaded.card.config.keys() & config.keys()}.items()
    assert_sharp(loaded, images)
    assert difference(loaded(images), output) < 1e-5


@torch.no_grad()
def test_the_comparison_fails_when_a_head_is_swapped(golden, loaded):
    _, _, images, output, _ = golden
    swap_heads(loaded, block=1)
    assert difference(loaded(images), output) > 1e-3


def test_saved_for_timm_the_file_is_the_same_again(golden, loaded, tmp_path):
    weights = golden[1]
    saved = load_file(patchword.save(loaded, tmp_path / "again", layout="timm") / "model.safetensors")
    assert saved.keys() == weights.keys()
    assert [key for key in weights if not torch.equal(saved[key], weights[key])] == []
