"""Image families of transformers: random configs and sizes; their weights here, and back again."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers

import patchword
from patchword.layers import reference_attention
from support.fuzz.case import DOUBLE, SINGLE, Check, Outcome
from support.helpers import randomise

Draw = random.Random
PVT = 1e-3  # the authors have another epsilon in some norms than transformers; ours is theirs


def _vit(draw: Draw) -> dict[str, Any]:
    heads, patch = draw.choice((1, 2, 3)), draw.choice((4, 5, 8))
    return {
        "hidden_size": heads * draw.choice((4, 6, 8)),
        "num_attention_heads": heads,
        "num_hidden_layers": draw.randint(1, 3),
        "intermediate_size": draw.randint(5, 60),
        "hidden_act": draw.choice(("gelu", "gelu_new", "relu")),
        "layer_norm_eps": draw.choice((1e-12, 1e-6, 1e-3)),
        "qkv_bias": draw.random() < 0.8,
        "patch_size": patch,
        "image_size": patch * draw.randint(1, 5),
    }


def _swin(draw: Draw) -> dict[str, Any]:
    window, depths = draw.choice((2, 3, 4, 7)), draw.choice(([1], [2], [2, 1], [1, 2, 1]))
    patch = draw.choice((2, 4))
    return {
        "embed_dim": 8 * draw.choice((1, 2)),
        "depths": depths,
        "num_heads": [draw.choice((1, 2, 4)) for _ in depths],
        "window_size": window,
        "patch_size": patch,
        "image_size": patch * draw.randint(2, 9),
        "mlp_ratio": draw.choice((1.0, 2.0, 4.0)),
        "use_absolute_embeddings": draw.random() < 0.2,
        "hidden_act": draw.choice(("gelu", "relu")),
    }


def _cvt(draw: Draw) -> dict[str, Any]:
    width, heads = 8 * draw.choice((1, 2)), draw.choice((1, 2))
    return {
        "embed_dim": [width, 2 * width, 4 * width],
        "num_heads": [heads, 2 * heads, 4 * heads],
        "depth": [draw.randint(stage, 3) for stage in (1, 2, 3)],  # their drop path needs as many blocks
        "mlp_ratio": [draw.choice((1.0, 4.0))] * 3,
        "qkv_bias": [draw.random() < 0.8] * 3,
    }


def _pvt(draw: Draw) -> dict[str, Any]:
    return {
        "hidden_sizes": [8 * draw.choice((1, 2)), 16, 24, 32],
        "num_attention_heads": [1, 2, draw.choice((1, 3)), draw.choice((2, 4))],
        "depths": [draw.randint(1, 2) for _ in range(4)],
        "mlp_ratios": [draw.choice((1, 2, 4)) for _ in range(4)],
        "sequence_reduction_ratios": [4, 2, draw.choice((1, 2)), 1],
        "qkv_bias": draw.random() < 0.8,
        "image_size": 32 * draw.randint(1, 2),
    }


def _resnet(draw: Draw) -> dict[str, Any]:
    first = draw.choice((8, 16))
    return {
        "embedding_size": draw.choice((4, 8)),
        "hidden_sizes": [first, 2 * first, 4 * first, 8 * first],
        "depths": [draw.randint(1, 2) for _ in range(4)],
        "layer_type": draw.choice(("basic", "bottleneck")),
        "downsample_in_bottleneck": draw.random() < 0.2,
    }


def _regnet(draw: Draw) -> dict[str, Any]:
    group = draw.choice((4, 8))
    return {
        "embedding_size": draw.choice((4, 8)),
        "hidden_sizes": [group * draw.randint(1, 4) for _ in range(4)],
        "depths": [draw.randint(1, 2) for _ in range(4)],
        "groups_width": group,
        "layer_type": draw.choice(("y", "y", "x")),
    }


# Their class, and what is drawn. The image size of the last ones is free.
PEERS: dict[str, tuple[str, Callable[[Draw], dict[str, Any]]]] = {
    "vit": ("ViTForImageClassification", _vit),
    "deit": ("DeiTForImageClassificationWithTeacher", _vit),
    "swin": ("SwinForImageClassification", _swin),
    "cvt": ("CvtForImageClassification", _cvt),
    "pvt": ("PvtForImageClassification", _pvt),
    "resnet": ("ResNetForImageClassification", _resnet),
    "regnet": ("RegNetForImageClassification", _regnet),
}


def check(name: str, drawn: Callable[[Draw], dict[str, Any]], draw: Draw, outcome: Outcome) -> None:
    """transformers against ours; ours with the formula of attention, in float32; saved for transformers."""
    config = {**drawn(draw), "num_labels": draw.randint(1, 5), "num_channels": draw.choice((1, 3))}
    outcome.config |= config
    kind, tolerance = getattr(transformers, name), PVT if name.startswith("Pvt") else DOUBLE
    theirs = randomise(kind(kind.config_class(**config)), draw.randint(0, 999)).eval()
    side = config.get("image_size") or draw.choice((32, 37, 48))
    images = torch.randn(draw.randint(1, 3), config["num_channels"], side, side)
    outcome.config["images"] = tuple(images.shape)
    with TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours = patchword.load(folder)
        single = ours(images)
        images, expected = images.double(), theirs.double()(images.double()).logits
        found = ours.double()(images)
        outcome.compare("loaded from transformers", found, expected, tolerance)
        outcome.compare("float32", single, found, SINGLE)
        with reference_attention(ours):
            outcome.compare("reference attention", ours(images), found)
        again = kind.from_pretrained(patchword.save(ours.float(), Path(folder) / "back", layout="huggingface"))
        outcome.compare("saved for transformers", again.eval().double()(images).logits, expected)


CHECKS: dict[str, Check] = {name: partial(check, *peer) for name, peer in PEERS.items()}
