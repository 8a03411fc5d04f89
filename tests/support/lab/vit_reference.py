"""The logits and attention maps of zoo:vit-exercise in torch, to compare the page's own model with."""

from pathlib import Path

import torch
from torch import Tensor

import patchword
from patchword.analysis.attention.maps import layers
from patchword.zoo.entries import entry_folder

NAME = "zoo:vit-exercise"


def exercise_folder() -> Path:
    return entry_folder(NAME)


@torch.no_grad()
def reference(pixels: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the logits, and the attention of each layer as (heads, tokens, tokens). pixels: 28 x 28, from 0 to 1."""
    model = patchword.load(NAME).eval()
    normalization = model.card.normalization
    assert normalization is not None
    images = ((pixels - normalization.mean[0]) / normalization.std[0]).reshape(1, 1, 28, 28)
    return model(images)[0], [layer.dense()[0] for layer in layers(model, images)]
