"""Swin, CvT and PVT against Hugging Face's transformers, on random large weights.

What is known to differ there is taken over in these tests: CvT runs the exact GELU, PVT norms with 1e-6 everywhere.
Limits of transformers: PVT runs only at the image size of its config, CvT needs at least as many blocks in a stage as
there are stages up to it, Swin is the same network only where the window divides every map, and forgets its shift for
ever once it has seen a map as small as the window (so each test makes its own).
"""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import patchword
from support.helpers import assert_sharp, pixels, randomise, swap_heads
from support.parity import first_drift, states, their_states

transformers = pytest.importorskip("transformers")

SIZES = {
    "swin": {"width": 16, "depths": (2, 2, 2), "heads": (2, 4, 4), "window": 4, "patch": 2, "image": 32},
    "cvt": {"widths": (16, 32, 32), "depths": (1, 2, 3), "heads": (2, 2, 4), "image": 32, "activation": "gelu"},
    "pvt": {
        "widths": (16, 32),
        "depths": (2, 2),
        "heads": (2, 4),
        "mlp_ratios": (4, 2),
        "reductions": (4, 1),
        "image": 32,
    },
}
NAMES = {"swin": "swin-tiny", "cvt": "cvt-13", "pvt": "pvt-tiny"}
CLASSES = {
    "swin": transformers.SwinForImageClassification,
    "cvt": transformers.CvtForImageClassification,
    "pvt": transformers.PvtForImageClassification,
}
THEIR_SIZES = {
    "swin": {
        "image_size": 32,
        "patch_size": 2,
        "embed_dim": 16,
        "depths": [2, 2, 2],
        "num_heads": [2, 4, 4],
        "window_size": 4,
    },
    "cvt": {"embed_dim": [16, 32, 32], "depth": [1, 2, 3], "num_heads": [2, 2, 4]},
    "pvt": {
        "image_size": 32,
        "num_encoder_blocks": 2,
        "hidden_sizes": [16, 32],
        "depths": [2, 2],
        "num_attention_heads": [2, 4],
        "mlp_ratios": [4, 2],
        "sequence_reduction_ratios": [4, 1],
    },
}
BLOCKS = {
    "swin": lambda model: [stage.blocks for stage in model.swin.encoder.layers],
    "cvt": lambda model: [stage.layers for stage in model.cvt.encoder.stages],
    "pvt": lambda model: model.pvt.encoder.block,
}


@pytest.fixture(params=SIZES)
def family(request):
    return request.param


def ours(family, **overrides):
    return as_theirs(family, randomise(patchword.create(NAMES[family], classes=7, **SIZES[family] | overrides)).eval())


def theirs_from(folder, family):
    model, report = CLASSES[family].from_pretrained(folder, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def their_own(family, **options):
    config = CLASSES[family].config_class(num_labels=7, **THEIR_SIZES[family] | options)
    return randomise(CLASSES[family](config)).eval()


def as_theirs(family, model):
    """What transformers' PVT has in place of the authors' 1e-5."""
    for module in model.modules():
        if family == "pvt" and isinstance(module, nn.LayerNorm):
            module.eps = 1e-6
    return model


def load_as_theirs(family, source, **overrides):
    known = {"activation": "gelu"} if family == "cvt" else {}
    return as_theirs(family, patchword.load(source, **known, **overrides))


def drift(family, model, theirs, images):
    return first_drift(states(model, images), their_states(theirs, images, BLOCKS[family](theirs)))


def test_ours_loads_in_transformers(family, tmp_path):
    model, images = ours(family), pixels(2, 3, 32, 32)
    assert_sharp(model, images)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), family)
    assert drift(family, model, theirs, images) is None


def test_theirs_loads_here(family, tmp_path):
    theirs, images = their_own(family), pixels(2, 3, 32, 32)
    theirs.save_pretrained(tmp_path)
    model = load_as_theirs(family, tmp_path)
    assert_sharp(model, images)
    assert drift(family, model, theirs, images) is None


def test_a_bare_file_of_theirs_loads_when_the_heads_are_told(family, tmp_path):
    theirs, images = their_own(family), pixels(2, 3, 32, 32)
    theirs.save_pretrained(tmp_path / "theirs")
    save_file(load_file(tmp_path / "theirs" / "model.safetensors"), tmp_path / "bare.safetensors")
    model = load_as_theirs(family, tmp_path / "bare.safetensors", heads=SIZES[family]["heads"])
    assert drift(family, model, theirs, images) is None


def test_the_names_of_a_living_model_of_theirs_are_known(family, tmp_path):
    theirs, images = their_own(family), pixels(2, 3, 32, 32)
    save_file(theirs.state_dict(), tmp_path / "living.safetensors")
    model = load_as_theirs(family, tmp_path / "living.safetensors", heads=SIZES[family]["heads"])
    assert drift(family, model, theirs, images) is None


@pytest.mark.parametrize(
    ("family", "size"),
    [
        ("swin", (64, 64)),
        ("swin", (64, 96)),
        ("swin", (96, 64)),
        ("cvt", (64, 64)),
        ("cvt", (40, 72)),
        ("cvt", (37, 45)),
    ],
)
def test_another_resolution(family, size, tmp_path):
    model, images = ours(family), pixels(2, 3, *size)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), family)
    assert drift(family, model, theirs, images) is None


@pytest.mark.parametrize("image", [64, (64, 96)])
def test_a_swin_for_another_image(image, tmp_path):
    model = ours("swin", image=image)
    images = pixels(1, 3, *((image, image) if isinstance(image, int) else image))
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "swin")
    assert drift("swin", model, theirs, images) is None
    again = patchword.load(tmp_path)
    assert again.card.config == model.card.config
    assert drift("swin", again, theirs, images) is None


def test_the_exact_gelu_of_their_cvt_is_a_known_difference(tmp_path):
    """Their folders do not tell it, ours do. The authors' weights were converted before the first release with CvT."""
    theirs, images = their_own("cvt"), pixels(2, 3, 32, 32)
    theirs.save_pretrained(tmp_path / "theirs")
    with pytest.warns(UserWarning, match="the exact GELU is used"):
        model = patchword.load(tmp_path / "theirs")
    assert drift("cvt", model, theirs, images) is None
    path = tmp_path / "theirs" / "config.json"
    config = json.loads(path.read_text())
    for version in ("4.18.0.dev0", "4.20.0.dev0", None):
        path.write_text(json.dumps(config | {"transformers_version": version}))
        with pytest.warns(UserWarning, match="QuickGELU is used"):
            model = patchword.load(tmp_path / "theirs")
        assert drift("cvt", model, theirs, images) == "stage 0 block 0"
    for activation in ("gelu", "quick-gelu"):
        folder = patchword.save(ours("cvt", activation=activation), tmp_path / activation, layout="huggingface")
        assert patchword.load(folder).card.config["activation"] == activation


def test_the_norms_of_their_pvt_are_a_known_difference(tmp_path):
    """Seen where the patches hardly differ: there an eps counts."""
    model, images = ours("pvt"), pixels(2, 3, 32, 32)
    with torch.no_grad():
        model.stages[1].stem.patches.weight.mul_(1e-3)
        model.stages[1].stem.patches.bias.zero_()
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), "pvt")
    assert drift("pvt", model, theirs, images) is None
    assert drift("pvt", patchword.load(tmp_path), theirs, images) == "stage 1 embedding"


@pytest.mark.parametrize(("stage", "block"), [(0, 0), (1, 1), (-1, -1)])
def test_a_swapped_head_is_found_and_its_block_named(family, stage, block, tmp_path):
    model, images = ours(family), pixels(2, 3, 32, 32)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), family)
    swap_heads(model, block, stage=stage)
    stage, block = stage % len(model.stages), block % len(model.stages[stage].encoder.blocks)
    assert drift(family, model, theirs, images) == f"stage {stage} block {block}"


@pytest.mark.parametrize(
    ("family", "key", "place"),
    [
        ("swin", "stages.1.stem.reduce.weight", "stage 1 embedding"),
        ("swin", "stages.1.encoder.blocks.1.attention.sublayer.patterns.0.position.table", "stage 1 block 1"),
        ("cvt", "stages.2.prefix.tokens", "stage 2 embedding"),
        ("cvt", "stages.1.encoder.blocks.0.attention.sublayer.projection.key.depthwise.norm.weight", "stage 1 block 0"),
        ("pvt", "stages.1.positions.table", "stage 1 embedding"),
        ("pvt", "stages.0.encoder.blocks.1.attention.sublayer.projection.reduce.weight", "stage 0 block 1"),
        ("pvt", "norm.weight", "scores"),
    ],
)
def test_a_changed_weight_is_found_and_its_place_named(family, key, place, tmp_path):
    model, images = ours(family), pixels(2, 3, 32, 32)
    theirs = theirs_from(patchword.save(model, tmp_path, layout="huggingface"), family)
    with torch.no_grad():
        model.get_parameter(key).mul_(1.01)
    assert drift(family, model, theirs, images) == place
