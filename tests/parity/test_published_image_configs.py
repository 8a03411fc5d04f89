"""The configs of published image checkpoints: as many weights as here, and equal outputs at a reduced width.

A config lists what its config.json says otherwise than the defaults of transformers. Outputs are compared with a
quarter of the width or less and at most two blocks per stage; all other fields are kept.
"""

import pytest
import torch
import transformers

import patchword
from patchword.models import REGISTRY
from support.helpers import difference, pixels, randomise

PUBLISHED = {
    "google/vit-base-patch16-224": ("vit-base-16", "ViT", {}),
    "google/vit-large-patch16-224": (
        "vit-large-16",
        "ViT",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    ),
    "google/vit-base-patch32-224-in21k": ("vit-base-32", "ViT", {"patch_size": 32}),
    "google/vit-large-patch32-224-in21k": (
        "vit-large-32",
        "ViT",
        {
            **{"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16},
            "intermediate_size": 4096,
            "patch_size": 32,
        },
    ),
    "google/vit-huge-patch14-224-in21k": (
        "vit-huge-14",
        "ViT",
        {
            **{"hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 16},
            "intermediate_size": 5120,
            "patch_size": 14,
        },
    ),
    "facebook/deit-small-patch16-224": (
        "deit-small",
        "ViT",
        {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536},
    ),
    "facebook/deit-base-patch16-224": ("deit-base", "ViT", {}),
    "facebook/deit-tiny-distilled-patch16-224": (
        "deit-tiny-distilled",
        "DeiT",
        {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768},
    ),
    "facebook/deit-base-distilled-patch16-224": ("deit-base-distilled", "DeiT", {}),
    "facebook/deit-tiny-patch16-224": (
        "deit-tiny",
        "ViT",
        {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768},
    ),
    "facebook/deit-small-distilled-patch16-224": (
        "deit-small-distilled",
        "DeiT",
        {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536},
    ),
    "microsoft/swin-tiny-patch4-window7-224": ("swin-tiny", "Swin", {}),
    "microsoft/swin-small-patch4-window7-224": ("swin-small", "Swin", {"depths": [2, 2, 18, 2]}),
    "microsoft/swin-base-patch4-window7-224": (
        "swin-base",
        "Swin",
        {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32]},
    ),
    "microsoft/swin-large-patch4-window7-224": (
        "swin-large",
        "Swin",
        {"embed_dim": 192, "depths": [2, 2, 18, 2], "num_heads": [6, 12, 24, 48]},
    ),
    "microsoft/swin-large-patch4-window12-384": (
        "swin-large-384",
        "Swin",
        {
            **{"embed_dim": 192, "depths": [2, 2, 18, 2], "num_heads": [6, 12, 24, 48]},
            **{"window_size": 12, "image_size": 384},
        },
    ),
    "microsoft/swin-base-patch4-window12-384": (
        "swin-base-384",
        "Swin",
        {
            **{"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32]},
            **{"window_size": 12, "image_size": 384},
        },
    ),
    "microsoft/cvt-13": ("cvt-13", "Cvt", {}),
    "microsoft/cvt-21": ("cvt-21", "Cvt", {"depth": [1, 4, 16]}),
    "microsoft/cvt-w24-384-22k": (
        "cvt-w24-384",
        "Cvt",
        {"embed_dim": [192, 768, 1024], "num_heads": [3, 12, 16], "depth": [2, 2, 20]},
    ),
    "Zetatech/pvt-tiny-224": ("pvt-tiny", "Pvt", {}),
    "Zetatech/pvt-small-224": ("pvt-small", "Pvt", {"depths": [3, 4, 6, 3]}),
    "Zetatech/pvt-medium-224": ("pvt-medium", "Pvt", {"depths": [3, 4, 18, 3]}),
    "Zetatech/pvt-large-224": ("pvt-large", "Pvt", {"depths": [3, 8, 27, 3]}),
    "microsoft/resnet-18": (
        "resnet-18",
        "ResNet",
        {"hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2], "layer_type": "basic"},
    ),
    "microsoft/resnet-34": (
        "resnet-34",
        "ResNet",
        {"hidden_sizes": [64, 128, 256, 512], "depths": [3, 4, 6, 3], "layer_type": "basic"},
    ),
    "microsoft/resnet-50": ("resnet-50", "ResNet", {}),
    "microsoft/resnet-101": ("resnet-101", "ResNet", {"depths": [3, 4, 23, 3]}),
    "microsoft/resnet-152": ("resnet-152", "ResNet", {"depths": [3, 8, 36, 3]}),
    "facebook/regnet-y-040": ("regnety-4gf", "RegNet", {}),
    "facebook/regnet-y-080": (
        "regnety-8gf",
        "RegNet",
        {"hidden_sizes": [168, 448, 896, 2016], "depths": [2, 4, 10, 1], "groups_width": 56},
    ),
    "facebook/regnet-y-160": (
        "regnety-16gf",
        "RegNet",
        {"hidden_sizes": [224, 448, 1232, 3024], "depths": [2, 4, 11, 1], "groups_width": 112},
    ),
}
SMALL = {  # a narrower network of each kind; of the fields that a checkpoint has set, the others stay
    "ViT": {"hidden_size": 48, "num_hidden_layers": 2, "intermediate_size": 96},
    "DeiT": {"hidden_size": 48, "num_hidden_layers": 2, "intermediate_size": 96},
    "Swin": {"embed_dim": 32, "depths": [1, 1, 2, 1], "num_heads": [1, 2, 4, 8]},
    "Cvt": {"embed_dim": [12, 24, 48], "depth": [1, 2, 3]},
    "Pvt": {"hidden_sizes": [8, 16, 40, 64], "depths": [1, 1, 1, 1]},
    "ResNet": {"hidden_sizes": [32, 64, 128, 256], "depths": [1, 1, 1, 1], "embedding_size": 8},
    "RegNet": {"hidden_sizes": [64, 64, 128, 128], "depths": [1, 1, 1, 1]},
}


def theirs(kind, fields):
    """The model that their checkpoint has: two heads of a distilled DeiT, one of all others."""
    head = "ForImageClassificationWithTeacher" if kind == "DeiT" else "ForImageClassification"
    return getattr(transformers, kind + head)(getattr(transformers, f"{kind}Config")(num_labels=1000, **fields))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config_has_as_many_weights_as_ours(name):
    ours, kind, fields = PUBLISHED[name]
    with torch.device("meta"):
        model = theirs(kind, fields)
    assert sum(parameter.numel() for parameter in model.parameters()) == REGISTRY.find(ours)[1].parameters


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
@torch.no_grad()
def test_a_published_config_computes_the_same_at_a_reduced_width(name, tmp_path):
    _, kind, fields = PUBLISHED[name]
    model = randomise(theirs(kind, {**fields, **SMALL[kind]})).eval()
    model.save_pretrained(tmp_path)
    image = getattr(model.config, "image_size", 224)
    images = pixels(1, 3, image, image)
    found = patchword.load(tmp_path, **({"activation": "gelu"} if kind == "Cvt" else {}))(images)
    assert difference(found, model(images).logits) < 1e-5
