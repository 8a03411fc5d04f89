"""Files of Hugging Face's that hold an encoder without a head, or a head that we have not."""

import pytest
import torch
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.errors import UserError
from support.helpers import TINY, difference, pixels, randomise
from support.parity import opened_whole

transformers = pytest.importorskip("transformers")

SIZES = {
    "hidden_size": TINY["width"],
    "num_hidden_layers": TINY["depth"],
    "num_attention_heads": TINY["heads"],
    "intermediate_size": TINY["hidden"],
    "patch_size": TINY["patch"],
    "image_size": TINY["image"],
}
IMAGES = pixels(2, 3, 32, 32)


def encoder(name, **options):
    config = transformers.AutoConfig.for_model(name, **SIZES)
    kind = {"vit": transformers.ViTModel, "deit": transformers.DeiTModel}[name]
    return randomise(kind(config, **options)).eval()


@pytest.mark.parametrize("name", ["vit", "deit"])
@pytest.mark.parametrize("pooling", [True, False])
@torch.no_grad()
def test_an_encoder_alone_gets_a_new_head_if_the_classes_are_told(name, pooling, tmp_path):
    theirs = encoder(name, add_pooling_layer=pooling)
    theirs.save_pretrained(tmp_path)
    model = patchword.load(tmp_path, classes=4)
    assert difference(model.encode(IMAGES)[0], theirs(IMAGES).last_hidden_state) < 1e-5
    assert model(IMAGES).shape == (2, 4)
    assert float(model.head.linear.weight.abs().max()) < 0.15  # as the family's heads start; ViT's are zeros
    assert not model.head.linear.bias.any()
    assert model.card.config["classes"] == 4
    assert model.card.config.get("distilled", False) == (name == "deit")


@torch.no_grad()
def test_the_names_of_a_living_encoder_are_known(tmp_path):
    theirs = encoder("vit")
    save_file(theirs.state_dict(), tmp_path / "living.safetensors")
    model = patchword.load(tmp_path / "living.safetensors", classes=4, heads=TINY["heads"])
    assert difference(model.encode(IMAGES)[0], theirs(IMAGES).last_hidden_state) < 1e-5


def test_an_encoder_alone_says_that_its_head_is_missing(tmp_path):
    encoder("vit").save_pretrained(tmp_path)
    with pytest.raises(UserError, match="has no head") as caught:
        patchword.load(tmp_path)
    assert "load(source, classes=10)" in caught.value.hint


def test_a_head_that_lost_its_bias_is_not_replaced(tmp_path):
    """A head that is there is never overwritten."""
    encoder("vit").save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors") | {"classifier.weight": torch.ones(4, TINY["width"])}
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UserError) as caught:
        patchword.load(tmp_path, classes=4)
    assert caught.value.hint == "missing     head.linear.bias (4,)"


@torch.no_grad()
def test_a_token_of_distillation_needs_no_head_of_its_own(tmp_path):
    theirs = randomise(transformers.DeiTForImageClassification(transformers.DeiTConfig(**SIZES, num_labels=7))).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    model = patchword.load(tmp_path / "theirs")
    assert not model.card.config["distilled_head"]
    assert difference(model(IMAGES), theirs(IMAGES).logits) < 1e-5
    patchword.save(model, tmp_path / "back", layout="huggingface")
    again = opened_whole(transformers.DeiTForImageClassification, tmp_path / "back")
    assert difference(again(IMAGES).logits, theirs(IMAGES).logits) < 1e-5
    with pytest.raises(UserError, match="expected distilled_head True"):
        patchword.save(model, tmp_path / "timm", layout="timm")


CONVOLUTIONS = {"hidden_sizes": [16, 32], "depths": [1, 2], "embedding_size": 8}
OTHERS = {
    "Swin": {
        "image_size": 32,
        "patch_size": 2,
        "embed_dim": 16,
        "depths": [2, 2],
        "num_heads": [2, 4],
        "window_size": 4,
    },
    "Cvt": {"embed_dim": [16, 32, 32], "depth": [1, 2, 3], "num_heads": [2, 2, 4]},
    "Pvt": {
        **{"image_size": 32, "num_encoder_blocks": 2, "hidden_sizes": [16, 32], "depths": [2, 2]},
        **{"num_attention_heads": [2, 4], "mlp_ratios": [4, 2], "sequence_reduction_ratios": [4, 1]},
    },
    "ResNet": CONVOLUTIONS,
    "ResNet basic": {**CONVOLUTIONS, "layer_type": "basic"},
    "RegNet": {**CONVOLUTIONS, "groups_width": 8},
    "RegNet x": {**CONVOLUTIONS, "groups_width": 8, "layer_type": "x"},
}


def last_state(model, images=IMAGES):
    """What leaves the last block of our model: CvT's encoder alone has no norm after it, as the others have."""
    tokens, grid = model.stages[0](images)
    for stage in model.stages[1:]:
        tokens, grid = stage(grid.to_map(tokens)[1])
    return tokens, grid


def assert_same_state(kind, model, theirs):
    found = theirs(IMAGES).last_hidden_state
    tokens, grid = last_state(model) if kind == "Cvt" else model.encode(IMAGES)
    if found.ndim == 4:
        found, tokens = found.flatten(2).transpose(1, 2), tokens[:, grid.prefix :]
    assert difference(tokens, found) < 1e-5


@pytest.mark.parametrize("name", OTHERS)
@torch.no_grad()
def test_the_encoder_of_another_family_gets_a_new_head(name, tmp_path):
    kind = name.split()[0]
    config = getattr(transformers, f"{kind}Config")(**OTHERS[name])
    theirs = randomise(getattr(transformers, f"{kind}Model")(config)).eval()
    theirs.save_pretrained(tmp_path)
    known = {"activation": "gelu"} if kind == "Cvt" else {}
    with pytest.raises(UserError, match="has no head"):
        patchword.load(tmp_path, **known)
    model = patchword.load(tmp_path, classes=4, **known)
    assert_same_state(kind, model, theirs)
    assert model(IMAGES).shape == (2, 4)
    assert float(model.head.linear.weight.abs().max()) < 0.5


@pytest.mark.parametrize("name", OTHERS)
@torch.no_grad()
def test_what_we_save_opens_there_without_its_head(name, tmp_path):
    kind = name.split()[0]
    config = getattr(transformers, f"{kind}Config")(**OTHERS[name], num_labels=5)
    randomise(getattr(transformers, f"{kind}ForImageClassification")(config)).eval().save_pretrained(
        tmp_path / "theirs"
    )
    known = {"activation": "gelu"} if kind == "Cvt" else {}
    model = patchword.load(tmp_path / "theirs", **known)
    patchword.save(model, tmp_path / "ours", layout="huggingface")
    theirs, report = getattr(transformers, f"{kind}Model").from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"]
    assert_same_state(kind, model, theirs.eval())
