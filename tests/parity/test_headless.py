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
