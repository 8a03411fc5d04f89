"""Outputs of timm's and of the authors' own code, kept in files, so that neither need be installed to compare."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import patchword
from patchword.models.older_fields import rename_older_fields
from support.helpers import assert_sharp, difference, swap_heads

# Whose names a file has, and what its tensors cannot tell.
FILES = {
    "vit": ("timm", {"model": "vit-tiny-16", "heads": 4}),
    "deit-distilled": ("timm", {"model": "deit-tiny-distilled", "heads": 4}),
    "swin": ("timm", {"image": (32, 64)}),
    "cswin_tiny": ("authors", {"image": 128, "heads": (2, 2, 4, 8), "stripes": (1, 2, 4, 4)}),
    "pvt_tiny": ("authors", {"heads": (1, 2, 5, 8)}),
    "cvt_tiny": ("authors", {"heads": (1, 3, 6)}),
}


class Golden:
    """The weights, the input, the output and the sizes in a file, and the model loaded from the weights alone."""

    def __init__(self, name, folder):
        with safe_open(Path(__file__).with_name(f"{name}.safetensors"), framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
            self.config = json.loads(file.metadata()["config"])
        self.images, self.output = tensors.pop("input"), tensors.pop("output")
        self.weights = {key.removeprefix("weights."): tensor for key, tensor in tensors.items()}
        self.layout, options = FILES[name]
        save_file(self.weights, folder / "theirs.safetensors")
        self.model = patchword.load(folder / "theirs.safetensors", **options)

    @torch.no_grad()
    def difference(self):
        return difference(self.model(self.images), self.output)


@pytest.fixture(params=FILES)
def golden(request, tmp_path):
    return Golden(request.param, tmp_path)


def test_output_equals_theirs(golden):
    config = golden.model.card.config
    sizes = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in rename_older_fields(golden.config).items()
    }
    assert {key: config[key] for key in config.keys() & sizes.keys()}.items() <= sizes.items()
    assert_sharp(golden.model, golden.images)
    assert golden.difference() < 1e-5


def test_the_comparison_fails_when_a_head_is_swapped(golden):
    swap_heads(golden.model, block=-1, stage=-1)
    assert golden.difference() > 1e-3


@pytest.mark.parametrize(("name", "stage"), [("cswin_tiny", 0), ("cswin_tiny", 2)])
def test_the_comparison_fails_when_stripes_exchange_their_directions(name, stage, tmp_path):
    golden = Golden(name, tmp_path)
    patterns = golden.model.stages[stage].encoder.blocks[0].attention.sublayer.patterns
    patterns[0].partition, patterns[1].partition = patterns[1].partition, patterns[0].partition
    assert golden.difference() > 1e-3


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_the_comparison_fails_when_windows_are_not_shifted(stage, tmp_path):
    golden = Golden("swin", tmp_path)
    pattern = golden.model.stages[stage].encoder.blocks[1].attention.sublayer.patterns[0]
    pattern.partition = replace(pattern.partition, shift=0)
    assert golden.difference() > 1e-3


def test_saved_for_them_the_file_is_the_same_again(golden, tmp_path):
    folder = patchword.save(golden.model, tmp_path / "again", layout=golden.layout)
    saved = load_file(folder / "model.safetensors")
    assert saved.keys() == golden.weights.keys()
    assert [key for key in saved if not torch.equal(saved[key], golden.weights[key])] == []
    assert patchword.load(folder).card.config == golden.model.card.config  # the sizes stand beside it
