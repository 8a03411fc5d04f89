"""Counts the cost of segmenters: backbone, neck and heads."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from patchword.analysis.cost.count import block_names, calls_of, module_lines
from patchword.analysis.cost.dense import DenseCost, PartCost
from patchword.analysis.cost.line import Call, Line
from patchword.analysis.cost.sizes import stage_sizes
from patchword.core.card import Card
from patchword.core.errors import UserError, nearest
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.models.dense.backbones import image_channels
from patchword.models.segmentation import create_segmenter

SIZE = (512, 512)  # height and width of training crops
CONVENTION = (
    "Published FLOPs of UperNet are MACs at 2048 x 512 pixels, counted with mmseg. Interpolation, pooling and norms "
    "are not counted, nor is the auxiliary head, which runs in training only. Swin's published FLOPs include the "
    "padding of its windows: window_padding=attended. Published Semantic FPNs have mmseg's ResNet: deep_stem=True."
)
_SECTIONS = ("backbone", "neck", "head", "auxiliary")
_TITLES = {  # parts of heads, by the start of their names
    "head.pooling": "head, pyramid pooling",
    "head.lateral": "head, laterals",
    "head.output": "head, levels",
    "head.fuse": "head, fusion of the levels",
    "head.scales": "head, convolutions of the levels",
    "head.class_output": "head, logits",
    "neck.lateral": "neck, laterals",
    "neck.output": "neck, outputs",
    "auxiliary": "auxiliary head (training only)",
}


class SegmenterCost(DenseCost):
    """The cost of a segmenter or a part of it."""

    convention = CONVENTION

    def sections(self) -> list[PartCost]:
        """Return the sums of backbone, neck, head and auxiliary head."""
        found = [self.below(name) for name in _SECTIONS]
        return [PartCost(one.part, one.macs, one.parameters) for one in found if one.lines]

    def place_of(self, line: Line) -> str:
        """Return the part that a line belongs to, e.g. "head, laterals"."""
        return _title(line.part)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `DenseCost`, with what is counted."""
        return {**super().to_json(), "segmenter_convention": CONVENTION}


def count_segmenter(card: Card, part: str = "", size: tuple[int, int] = SIZE) -> SegmenterCost:
    """Return the cost of a segmenter or one of its parts, for one image of a height and width.

    >>> count_segmenter(create_segmenter("upernet", backbone="swin-tiny").card, size=(512, 2048)).macs
    """
    with torch.device("meta"):
        segmenter = create_segmenter(card.model, **card.config).eval()
        images = torch.empty(1, image_channels(segmenter.backbone), *size)
    names = [name for name, _ in segmenter.named_modules()]
    if part not in names:
        raise UserError(f"{card.model!r} has no part {part!r}", hint=nearest(part, names))
    calls = calls_of(segmenter, lambda: segmenter.outputs(images, auxiliary=True))
    lines = tuple(
        line for line in _lines(segmenter, calls) if not part or line.part == part or line.part.startswith(f"{part}.")
    )
    cost = SegmenterCost(
        *(card.model, part, tuple(images.shape), lines, str(card.config["backbone"])),
        blocks=block_names(segmenter),
        stages=stage_sizes(segmenter, calls),
    )
    expected = sum(parameter.numel() for parameter in segmenter.get_submodule(part).parameters())
    assert cost.parameters == expected, f"the rules count {cost.parameters} parameters, the segmenter has {expected}"
    return cost


def _lines(segmenter: Segmenter, calls: dict[str, list[Call]]) -> Iterable[Line]:
    for name in _SECTIONS:
        module = getattr(segmenter, name)
        for line in () if module is None else module_lines(module, name, calls):
            yield replace(line, macs=None) if name == "auxiliary" else line


def _title(part: str) -> str:
    pieces = part.split(".")
    if pieces[0] == "backbone":
        inner = pieces[2:] if pieces[1:2] == ["backbone"] else pieces[1:]
        return f"backbone, stage {int(inner[1]) + 1}" if inner[0] == "stages" else f"backbone, {inner[0]}"
    return next(title for start, title in _TITLES.items() if part.startswith(start))
