"""ViT and DeiT against Hugging Face's transformers, on random large weights."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

import patchword
from support.helpers import TINY, assert_sharp, pixels, randomise, swap_heads, tiny
from support.parity import first_drift, states, their_states

transformers = pytest.importorskip("transformers")

CLASSES = {
    "vit-tiny-16": transformers.ViTForImageClassification,
    "deit-tiny": transformers.ViTForImageClassification,  # without its token, DeiT is a ViT
    "deit-tiny-distilled": transformers.DeiTForImageClassificationWithTeacher,
}
SIZES = {
    "hidden_size": TINY["width"],
    "num_hidden_layers": TINY["depth"],
    "num_attention_heads": TINY["heads"],
    "intermediate_size": TINY["hidden"],
    "patch_size": TINY["patch"],
    "image_size": TINY["image"],
    "num_labels": TINY["classes"],
}


@pytest.fixture(params=CLASSES)
def name(request):
    return request.param


def theirs_from(folder, name):
    model, report = CLASSES[name].from_pretrained(folder, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def their_own(name, **options):
    config = CLASSES[name].config_class(**SIZES | options)
    return randomise(CLASSES[name](config)).eval()


def test_ours_loads_in_transformers(name, tmp_path):
    model, images = tiny(name), pixels(2, 3, 32, 32)
    assert_sharp(model, images)
    theirs = theirs_from(patchword.save(model, tmp_path / "model", layout="huggingface"), name)
    assert first_drift(states(model, images), their_states(theirs, images)) is None


@pytest.mark.parametrize("options", [{}, {"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 0.1}])
def test_theirs_loads_here(name, options, tmp_path):
    theirs, images = their_own(name, **options), pixels(2, 3, 32, 32)
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path)
    assert_sharp(model, images)
    assert first_drift(states(model, images), their_states(theirs, images)) is None


def test_a_bare_file_of_theirs_loads_when_the_model_is_named(name, tmp_path):
    theirs, images = their_own(name), pixels(2, 3, 32, 32)
    theirs.save_pretrained(tmp_path / "theirs")
    bare = tmp_path / "bare.safetensors"
    save_file(load_file(tmp_path / "theirs" / "model.safetensors"), bare)
    model = patchword.load(bare, model=name, heads=4)
    assert first_drift(states(model, images), their_states(theirs, images)) is None


def test_the_names_of_a_living_model_of_theirs_are_known(name, tmp_path):
    theirs, images = their_own(name), pixels(2, 3, 32, 32)
    save_file(theirs.state_dict(), tmp_path / "living.safetensors")
    model = patchword.load(tmp_path / "living.safetensors", heads=TINY["heads"])
    assert first_drift(states(model, images), their_states(theirs, images)) is None


@pytest.mark.parametrize("size", [(48, 48), (24, 40)])
def test_another_resolution(name, size, tmp_path):
    model, images = tiny(name), pixels(2, 3, *size)
    theirs = theirs_from(patchword.save(model, tmp_path / "model", layout="huggingface"), name)
    assert first_drift(states(model, images), their_states(theirs, images, interpolate_pos_encoding=True)) is None


def test_an_image_that_is_not_square(name, tmp_path):
    model, images = tiny(name, image=(24, 40)), pixels(2, 3, 24, 40)
    theirs = theirs_from(patchword.save(model, tmp_path / "model", layout="huggingface"), name)
    assert first_drift(states(model, images), their_states(theirs, images)) is None
    assert first_drift(states(patchword.load(tmp_path / "model"), images), their_states(theirs, images)) is None


def test_labels_reach_transformers(tmp_path):
    model = tiny()
    labels = ("ankle boot", "bag", "coat", "dress", "pullover", "sandal", "shirt")
    model.card = replace(model.card, labels=labels)
    folder = patchword.save(model, tmp_path, layout="huggingface")
    assert tuple(theirs_from(folder, "vit-tiny-16").config.id2label.values()) == labels


@pytest.mark.parametrize("block", [0, 1])
def test_a_swapped_head_is_found_and_its_block_named(name, block, tmp_path):
    model, images = tiny(name), pixels(2, 3, 32, 32)
    expected = their_states(theirs_from(patchword.save(model, tmp_path, layout="huggingface"), name), images)
    swap_heads(model, block)
    assert first_drift(states(model, images), expected) == f"block {block}"


@pytest.mark.parametrize(
    ("place", "key"),
    [("embedding", "stages.0.positions.table"), ("scores", "norm.bias"), ("scores", "head.linear.weight")],
)
def test_a_changed_weight_is_found_and_its_place_named(place, key, tmp_path):
    model, images = tiny(), pixels(2, 3, 32, 32)
    expected = their_states(theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "vit-tiny-16"), images)
    with torch.no_grad():
        model.get_parameter(key).mul_(1.01)
    assert first_drift(states(model, images), expected) == place
