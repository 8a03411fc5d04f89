"""A tiny segmenter with classes that differ from pixel to pixel."""

from dataclasses import replace

import torch

from patchword.models.segmentation import create_segmenter
from support.segmentation.label_maps import COLORS


def tiny_segmenter():
    torch.manual_seed(0)
    sizes = {"backbone_fields": {"width": 8}, "width": 8, "auxiliary": 0, "scales": (1, 2)}
    segmenter = create_segmenter("upernet", backbone="resnet-18", classes=len(COLORS), **sizes).eval()
    for layer in segmenter.class_outputs():
        torch.nn.init.normal_(layer.weight, std=3.0)
    segmenter.card = replace(segmenter.card, labels=tuple(COLORS))
    return segmenter
