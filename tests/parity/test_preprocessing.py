"""Image files become the tensors that transformers' processors make, from preprocessor_config.json alone."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import patchword
from patchword.core.card import Card, Normalization, Resize
from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import normalize
from patchword.data.image.decoding import decode
from patchword.data.image.image_format import ImageFormat
from patchword.weights.io.cards import card_from_dict
from patchword.weights.io.preprocessing import read_normalization, read_resize
from patchword.weights.io.saving import describe
from support.helpers import difference, tiny

transformers = pytest.importorskip("transformers")
SIZES = [(300, 200), (200, 300), (257, 256), (40, 31), (224, 224), (1000, 90)]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
BOTH = {"image_mean": MEAN, "image_std": STD}
PROCESSORS = {
    "ViT": ("ViTImageProcessor", {"size": {"height": 224, "width": 224}, "resample": 2, **BOTH}),
    "Swin": ("ViTImageProcessor", {"size": {"height": 224, "width": 224}, "resample": 3, **BOTH}),
    "not square": ("ViTImageProcessor", {"size": {"height": 192, "width": 256}, "resample": 3, **BOTH}),
    "DeiT": (
        "DeiTImageProcessor",
        {"size": {"height": 256, "width": 256}, "crop_size": {"height": 224, "width": 224}, "resample": 3, **BOTH},
    ),
    "ResNet, CvT, RegNet": (
        "ConvNextImageProcessor",
        {"size": {"shortest_edge": 224}, "crop_pct": 0.875, "resample": 3, **BOTH},
    ),
    "another fraction": (
        "ConvNextImageProcessor",
        {"size": {"shortest_edge": 224}, "crop_pct": 0.95, "resample": 3, **BOTH},
    ),
    "large": ("ConvNextImageProcessor", {"size": {"shortest_edge": 384}, "resample": 3, **BOTH}),
    "PVT": ("PvtImageProcessor", {"size": {"height": 224, "width": 224}, "resample": 2, **BOTH}),
    "not normalized": ("ViTImageProcessor", {"size": {"height": 32, "width": 32}, "do_normalize": False}),
}


def photo(path: Path, size: tuple[int, int]) -> Path:
    """Write smooth colours with noise, so that both shifts and interpolations show."""
    width, height = size
    rows, columns = np.mgrid[0:height, 0:width]
    waves = [np.sin(rows / 7 + channel) + np.cos(columns / 5 - channel) for channel in range(3)]
    noise = np.random.default_rng(0).normal(0, 0.3, (height, width, 3))
    pixels = (np.stack(waves, -1) + noise) * 60 + 128
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)
    return path


def theirs(name: str, folder: Path) -> tuple[object, dict[str, object]]:
    """Return a processor and its saved config."""
    kind, fields = PROCESSORS[name]
    found = getattr(transformers, kind)(**fields)
    found.save_pretrained(folder)
    return found, json.loads((folder / "preprocessor_config.json").read_text())


def ours(path: Path, config: dict[str, object], size: tuple[int, int], resize: Resize | None = None) -> torch.Tensor:
    pixels = decode(path, ImageFormat(size, 3, resize or read_resize(config, {})))
    return normalize(pixels[None], read_normalization(config, {}))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", PROCESSORS)
def test_tensors_are_those_of_the_processor(name, size, tmp_path):
    path = photo(tmp_path / "photo.png", size)
    processor, config = theirs(name, tmp_path)
    expected = processor(Image.open(path), return_tensors="pt")["pixel_values"]
    assert difference(ours(path, config, tuple(expected.shape[2:])), expected) < 1e-5


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("ViT", Resize("stretch", 1.0, "bicubic")),
        ("ViT", Resize("fit", 1.0, "bilinear")),
        ("DeiT", Resize("crop", 0.875, "bicubic")),
        ("ResNet, CvT, RegNet", Resize("crop", 0.95, "bicubic")),
    ],
    ids=str,
)
def test_another_resize_is_found(name, wrong, tmp_path):
    path = photo(tmp_path / "photo.png", (300, 200))
    processor, config = theirs(name, tmp_path)
    expected = processor(Image.open(path), return_tensors="pt")["pixel_values"]
    assert difference(ours(path, config, tuple(expected.shape[2:]), wrong), expected) > 0.01


def test_timms_config_is_read():
    assert read_resize({}, {"crop_pct": 0.9, "interpolation": "bicubic"}) == Resize("crop", 0.9, "bicubic")
    assert read_resize({}, {"crop_pct": 1.0, "crop_mode": "squash", "interpolation": "bilinear"}) == Resize(
        "stretch", 1.0, "bilinear"
    )
    assert read_resize({}, {}) == Resize()


@pytest.mark.parametrize(
    ("config", "timm", "message"),
    [
        ({}, {"crop_pct": 0.9, "crop_mode": "border"}, "crop_mode.*expected center or squash"),
        ({}, {"crop_pct": 0.9, "interpolation": "random"}, "'random' is not one of"),
        ({}, {"crop_pct": 1.5}, "at most 1"),
        ({"size": {"longest_edge": 4}}, {}, "expected height and width, or shortest_edge"),
        ({"size": "large"}, {}, "not understood|expected height"),
        ({"size": 8, "resample": 5}, {}, "resample.*expected 0, 1, 2 or 3"),
        ({"size": 8, "do_center_crop": True, "crop_size": {}}, {}, "not understood"),
    ],
)
def test_what_cannot_be_computed_is_refused(config, timm, message):
    with pytest.raises(UserError, match=message):
        read_resize(config, timm)


@pytest.mark.parametrize("fields", [{"rescale_factor": 1 / 127.5}, {"do_rescale": False}])
def test_other_scales_of_pixels_are_refused(fields):
    with pytest.raises(UserError, match="pixels that are divided by 255"):
        read_normalization({"size": 8, **fields}, {})


def test_a_saved_model_keeps_its_resize(tmp_path):
    model = tiny()
    model.card = Card(model.card.model, model.card.config, (), Normalization(), Resize("crop", 0.875, "lanczos"))
    patchword.save(model, tmp_path)
    assert patchword.load(tmp_path).card.resize == Resize("crop", 0.875, "lanczos")


def test_cards_without_a_resize_fit():
    """As all images were resized before it was saved."""
    described = describe(tiny().card)
    described.pop("resize")
    assert card_from_dict(described).resize == Resize()


def test_a_card_with_an_unknown_resize_is_refused():
    with pytest.raises(UserError, match="not a patchword card"):
        card_from_dict({**describe(tiny().card), "resize": {"mode": "evil"}})
