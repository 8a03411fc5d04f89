"""ResNet and RegNetY against Hugging Face's transformers, on random large weights and random statistics."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.errors import UserError
from support.helpers import pixels, randomise
from support.parity import first_drift, states, their_states

transformers = pytest.importorskip("transformers")

SIZES = {"classes": 7, "depths": (2, 1, 3)}
MODELS = {
    "basic": ("resnet-18", SIZES | {"width": 8}),
    "bottleneck": ("resnet-50", SIZES | {"width": 8, "channels": 1}),
    "regnet": ("regnety-mini", {"classes": 7, "widths": (16, 40, 48), "depths": (2, 1, 3), "group": 8, "stem": 12}),
}
CLASSES = {"resnet": transformers.ResNetForImageClassification, "regnet": transformers.RegNetForImageClassification}
CONFIGS = {
    "basic": {"hidden_sizes": [8, 16, 32], "embedding_size": 8, "layer_type": "basic"},
    "bottleneck": {"hidden_sizes": [32, 64, 128], "embedding_size": 8, "num_channels": 1},
    "regnet": {"hidden_sizes": [16, 40, 48], "embedding_size": 12, "groups_width": 8, "num_channels": 1},
}


@pytest.fixture(params=MODELS)
def kind(request):
    return request.param


def ours_of(kind):
    name, sizes = MODELS[kind]
    return randomise(patchword.create(name, **sizes)).eval()


def class_of(kind):
    return CLASSES["regnet" if kind == "regnet" else "resnet"]


def theirs_from(folder, kind):
    model, report = class_of(kind).from_pretrained(folder, output_loading_info=True)
    assert not any(report[part] for part in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def their_own(kind, **options):
    config = class_of(kind).config_class(depths=[2, 1, 3], num_labels=7, **CONFIGS[kind], **options)
    return randomise(class_of(kind)(config)).eval()


def images_for(kind):
    """Sides that the strides do not divide."""
    return pixels(2, 3 if kind == "basic" else 1, 75, 50)


def blocks_of(theirs):
    stages = (theirs.regnet if hasattr(theirs, "regnet") else theirs.resnet).encoder.stages
    return [list(stage.layers) for stage in stages]


def drift(model, theirs, images):
    return first_drift(states(model, images), their_states(theirs, images, blocks_of(theirs)))


def test_ours_loads_in_transformers(kind, tmp_path):
    model = ours_of(kind)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), kind)
    assert drift(model, theirs, images_for(kind)) is None


def test_theirs_loads_here(kind, tmp_path):
    theirs = their_own(kind)
    theirs.save_pretrained(tmp_path)
    assert drift(patchword.load(tmp_path), theirs, images_for(kind)) is None


def test_a_bare_file_of_theirs_tells_all_sizes(kind, tmp_path):
    theirs = their_own(kind)
    save_file(theirs.state_dict(), tmp_path / "living.safetensors")
    model = patchword.load(tmp_path / "living.safetensors")
    assert model.card.config.items() >= MODELS[kind][1].items()
    assert drift(model, theirs, images_for(kind)) is None


def test_the_way_back_gives_their_file_again(kind, tmp_path):
    their_own(kind).save_pretrained(tmp_path / "theirs")
    folder = patchword.save(patchword.load(tmp_path / "theirs"), tmp_path / "again", layout="huggingface")
    was, now = (load_file(place / "model.safetensors") for place in (tmp_path / "theirs", folder))
    assert was.keys() == now.keys()
    assert [name for name in was if not torch.equal(was[name], now[name])] == []


@pytest.mark.parametrize("image", [40, (24, 40)])
def test_the_size_of_images_survives(kind, image, tmp_path):
    """No tensor tells it."""
    name, sizes = MODELS[kind]
    model = patchword.create(name, **sizes, image=image)
    assert patchword.load(patchword.save(model, tmp_path, layout="huggingface")).card.config == model.card.config


@pytest.mark.parametrize(
    ("part", "key"),
    [
        ("stage 0 embedding", "stages.0.stem.first.norm.running_mean"),
        ("stage 0 block 1", "stages.0.blocks.1.branch.second.norm.running_var"),
        ("stage 1 block 0", "stages.1.blocks.0.shortcut.convolution.weight"),
        ("stage 2 block 2", "stages.2.blocks.2.branch.first.norm.bias"),
        ("scores", "head.linear.weight"),
    ],
)
def test_a_changed_tensor_is_found_and_its_place_named(part, key, kind, tmp_path):
    model = ours_of(kind)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), kind)
    with torch.no_grad():
        model.state_dict()[key].mul_(1.01)
    assert drift(model, theirs, images_for(kind)) == part


def test_a_stride_on_the_first_convolution_is_found(tmp_path):
    """As in the paper's own ResNet-50; the shapes are the same."""
    model = ours_of("bottleneck")
    branch = model.stages[1].blocks[0].branch
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "bottleneck")
    branch[0].convolution.stride, branch[2].convolution.stride = (2, 2), (1, 1)
    assert drift(model, theirs, images_for("bottleneck")) == "stage 1 block 0"


def test_the_squeeze_is_narrow_and_exchanging_its_units_is_found(tmp_path):
    model = ours_of("regnet")
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "regnet")
    squeeze = model.stages[1].blocks[0].branch[4].squeeze
    assert squeeze.weight.shape[0] == 4  # a quarter of the 16 channels that enter, not of the 40 that leave
    with torch.no_grad():
        squeeze.weight.copy_(squeeze.weight.flip(0))
    assert drift(model, theirs, images_for("regnet")) == "stage 1 block 0"


@pytest.mark.parametrize(
    ("which", "change"),
    [
        ("bottleneck", {"downsample_in_bottleneck": True}),
        ("basic", {"downsample_in_first_stage": True}),
        ("basic", {"hidden_act": "gelu"}),
        ("regnet", {"downsample_in_first_stage": False}),
    ],
)
def test_strides_and_activations_that_differ_are_refused(which, change, tmp_path):
    """The shapes do not tell them, so that the scores would be wrong in silence."""
    their_own(which, **change).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="differs from the paper's") as caught:
        patchword.load(tmp_path)
    assert caught.value.got == ", ".join(f"{field} {value}" for field, value in change.items())


def test_the_small_stem_has_no_place_in_transformers(tmp_path):
    with pytest.raises(UserError, match="expected patch 4"):
        patchword.save(patchword.create("resnet-mini"), tmp_path / "model", layout="huggingface")
    assert not (tmp_path / "model").exists()


def test_labels_and_preparation_reach_transformers(kind, tmp_path):
    model = ours_of(kind)
    folder = patchword.save(model, tmp_path, layout="huggingface")
    assert theirs_from(folder, kind).config.num_labels == 7
    prepared = json.loads((folder / "preprocessor_config.json").read_text())
    assert prepared["image_mean"] == list(model.card.normalization.mean)
