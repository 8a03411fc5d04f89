"""Counts the cost of detectors: backbone, neck, a head over all anchors, and heads that read a number of boxes."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import log2
from typing import Any, cast

import torch
from torch import Tensor, nn

from patchword.analysis.cost.count import block_names, calls_of, module_lines
from patchword.analysis.cost.dense import DenseCost, PartCost
from patchword.analysis.cost.detection_rules import box_convolution, box_linear, level_convolution, level_scales
from patchword.analysis.cost.line import Call, Line
from patchword.analysis.cost.rules import RULES, Rule
from patchword.analysis.cost.sizes import stage_sizes
from patchword.core.card import Card
from patchword.core.errors import UserError, nearest
from patchword.layers.dense.anchor_detector import AnchorDetector
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.points.reppoints_detector import RepPointsDetector
from patchword.layers.dense.queries.sparse_detector import SparseDetector
from patchword.layers.dense.queries.sparse_head import SparseHead
from patchword.layers.dense.roi_heads import BoxHead, MaskHead
from patchword.models.dense.backbones import image_channels
from patchword.models.detection import create_detector

SIZE = (800, 1280)  # height and width of the images of published FLOPs
_SECTIONS = {
    "stages": "box heads",
    "masks": "mask heads",
    "boxes": "learned boxes",
    "queries": "learned queries",
    "class_output": "class logits",
    "box_output": "boxes",
}
_MULTIPLE = 32  # images are padded to a multiple of it
CONVENTION = (
    "Published FLOPs of detectors are MACs at 1280 x 800 pixels, counted with mmdet: 1,000 proposals go through each "
    "box head and 100 boxes through each mask head. RoIAlign, norms, box decoding and non-maximum suppression are not "
    "counted. Swin's published FLOPs include the padding of its windows: window_padding=attended."
)


@dataclass(frozen=True)
class LevelAnchors:
    """The anchors of one level. stride: pixels per cell."""

    name: str
    stride: int
    rows: int
    columns: int
    per_cell: int

    @property
    def count(self) -> int:
        """The number of anchors."""
        return self.rows * self.columns * self.per_cell

    def working(self) -> str:
        """Return e.g. "200 x 320 x 3 = 192,000"."""
        return f"{self.rows} x {self.columns} x {self.per_cell} = {self.count:,}"


@dataclass(frozen=True)
class DetectorCost(DenseCost):
    """The cost of a detector or a part of it.

    anchors: of each level. boxes, masks: boxes that each box head and each mask head reads, or 0 if there is no such
    head.
    """

    anchors: tuple[LevelAnchors, ...]
    boxes: int
    masks: int
    convention = CONVENTION

    def sections(self) -> list[PartCost]:
        """Return the sums of backbone, neck, heads and so on."""
        names = dict.fromkeys(line.part.partition(".")[0] for line in self.lines)
        found = [self.below(name) for name in names]
        return [PartCost(_SECTIONS.get(one.part, one.part), one.macs, one.parameters) for one in found if one.lines]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `DenseCost`, with the anchors and the numbers of boxes."""
        anchors = [{**asdict(one), "count": one.count, "working": one.working()} for one in self.anchors]
        counted = {"anchors": anchors, "boxes": self.boxes, "masks": self.masks}
        return {**super().to_json(), **counted, "detector_convention": CONVENTION}

    def place_of(self, line: Line) -> str:
        """Return the part that a line belongs to, e.g. "backbone, stage 1"."""
        pieces = line.part.split(".")
        if pieces[0] == "backbone":
            inner = pieces[2:] if len(pieces) > 1 and pieces[1] == "backbone" else pieces[1:]
            return f"backbone, stage {int(inner[1]) + 1}" if inner[0] == "stages" else f"backbone, {inner[0]}"
        if pieces[0] == "proposer":
            level = line.label.partition(":")[0]
            return f"head, {level}" if level.startswith("P") else "head"
        if pieces[0] in ("stages", "masks"):
            kind, count = ("box", self.boxes) if pieces[0] == "stages" else ("mask", self.masks)
            return f"{kind} head {int(pieces[1]) + 1}, {count:,} boxes"
        if self.anchors:
            return f"neck, {line.label}"
        if pieces[0] in ("encoder", "decoder"):
            return f"{pieces[0]}, layer {int(pieces[2]) + 1}" if pieces[1] == "blocks" else f"{pieces[0]}, norm"
        return ", ".join([_SECTIONS.get(pieces[0], pieces[0]), *pieces[1:2]])


def count_detector(card: Card, part: str = "", size: tuple[int, int] = SIZE) -> DetectorCost:
    """Return the cost of a detector or one of its parts, for one image of a height and width.

    >>> count_detector(create_detector("mask-rcnn", backbone="swin-tiny").card).macs
    """
    with torch.device("meta"):
        detector = create_detector(card.model, **card.config).eval()
        images = torch.empty(1, image_channels(detector.backbone), *size)
    names = [name for name, _ in detector.named_modules()]
    if part not in names:
        raise UserError(f"{card.model!r} has no part {part!r}", hint=nearest(part, names))
    shapes: list[tuple[int, int]] = []
    calls = calls_of(detector, lambda: shapes.extend(run_parts(detector, images)))
    anchors = _level_anchors(detector, shapes)
    lines = tuple(line for line in _lines(detector, calls, anchors) if _is_below(line.part, part))
    counts = _box_counts(detector)
    backbone = str(card.config["backbone"])
    cost = DetectorCost(
        *(card.model, part, tuple(images.shape), lines, backbone, anchors, *counts),
        blocks=block_names(detector),
        stages=stage_sizes(detector, calls),
        facts=tuple(_facts(anchors, *counts)),
    )
    expected = sum(parameter.numel() for parameter in detector.get_submodule(part).parameters())
    assert cost.parameters == expected, f"the rules count {cost.parameters} parameters, the detector has {expected}"
    return cost


def largest_input(card: Card) -> tuple[int, int]:
    """Return height and width of the largest image that a detector reads, in landscape format and padded."""
    sides = sorted((int(card.config["min_size"]), int(card.config["max_size"])))
    height, width = (-(-side // _MULTIPLE) * _MULTIPLE for side in sides)
    return height, width


def _is_below(name: str, part: str) -> bool:
    return not part or name == part or name.startswith(f"{part}.")


def run_parts(detector: Detector, images: Tensor) -> list[tuple[int, int]]:
    """Run all parts once on the meta device; return the height and width of each level. Heads read their most boxes."""
    if isinstance(detector, RepPointsDetector):
        detector.head(detector.features(images))
        return []
    if isinstance(detector, SparseDetector):
        for each in cast(Sequence[SparseHead], detector.stages):
            each.pool = cast(Any, _NoPool(each.pool.size))
    if not isinstance(detector, AnchorDetector):
        detector(images)
        return []
    levels, (boxes, masks) = detector.features(images), _box_counts(detector)
    detector.proposer(levels)
    for stage in cast(Sequence[BoxHead], detector.stages):
        stage.pool = cast(Any, _NoPool(stage.pool.size))
        stage(levels, images.new_empty(1, boxes, 4))
    for head in cast(Sequence[MaskHead], detector.masks):
        head.pool = cast(Any, _NoPool(head.pool.size))
        head(levels, images.new_empty(1, masks, 4), images.new_empty(1, masks, dtype=torch.long))
    return [(level.shape[-2], level.shape[-1]) for level in levels]


def _facts(anchors: Sequence[LevelAnchors], boxes: int, masks: int) -> Iterable[str]:
    """Yield what a detector has besides parameters and MACs."""
    if anchors:
        yield f"anchors: {sum(one.count for one in anchors):,}"
    for one in anchors:
        yield f"anchors of {one.name}, stride {one.stride}: {one.working()}"
    if boxes:
        yield f"boxes through each box head: {boxes:,} (proposals per image)"
    if masks:
        yield f"boxes through each mask head: {masks:,} (detections per image)"


def _level_anchors(detector: Detector, shapes: Sequence[tuple[int, int]]) -> tuple[LevelAnchors, ...]:
    if not isinstance(detector, AnchorDetector):
        return ()
    per_cell, strides = detector.proposer.anchors.per_cell, detector.proposer.strides
    return tuple(
        LevelAnchors(_level(stride), stride, *shape, per_cell) for stride, shape in zip(strides, shapes, strict=True)
    )


def _box_counts(detector: Detector) -> tuple[int, int]:
    """Return how many boxes each box head and each mask head reads; 0 if there is no such head."""
    if isinstance(detector, SparseDetector):
        return len(detector.queries), 0
    if not isinstance(detector, AnchorDetector):
        return 0, 0
    boxes, masks = detector.proposer.rule.max_boxes, detector.rule.max_boxes
    return boxes if detector.stages else 0, masks if detector.masks else 0


@dataclass(frozen=True)
class _NoPool:
    """Features of boxes without a product, since RoIAlign is not counted."""

    size: int

    def __call__(self, levels: Sequence[Tensor], boxes: Tensor) -> Tensor:
        return levels[0].new_empty(boxes.shape[1], levels[0].shape[1], self.size, self.size)


def _lines(detector: Detector, calls: dict[str, list[Call]], anchors: Sequence[LevelAnchors]) -> Iterable[Line]:
    if not isinstance(detector, AnchorDetector):
        yield from module_lines(detector, "", calls)
        return
    yield from module_lines(detector.backbone, "backbone", calls)
    for line in module_lines(detector.neck, "neck", calls):
        yield replace(line, label=_neck_label(detector, line))
    yield from _head_lines(detector, calls, anchors)
    rules: dict[type[nn.Module], Rule] = {**RULES, nn.Conv2d: box_convolution, nn.Linear: box_linear}
    yield from module_lines(detector.stages, "stages", calls, rules)
    yield from module_lines(detector.masks, "masks", calls, rules)


def _neck_label(detector: AnchorDetector, line: Line) -> str:
    """Return e.g. "lateral of C3, convolution 1 x 1"."""
    _, kind, index = line.part.split(".")
    laterals = len(detector.neck.lateral)
    if kind == "downsample":
        return f"{_level(detector.proposer.strides[laterals + int(index)])}, {line.label}, stride 2"
    level = _level(detector.proposer.strides[int(index)])
    return f"{'lateral of ' + level.replace('P', 'C') if kind == 'lateral' else 'output ' + level}, {line.label}"


def _head_lines(
    detector: AnchorDetector, calls: dict[str, list[Call]], anchors: Sequence[LevelAnchors]
) -> Iterable[Line]:
    """Yield the lines of the dense head: every convolution runs on every level, with the same weights."""
    head, name = detector.proposer.head, "proposer.head"
    yield from level_scales(name, head)
    found: list[list[Line]] = [[] for _ in anchors]
    for inner, module in head.named_modules():
        part = f"{name}.{inner}"
        for number, call in enumerate(calls.get(part, [])):
            level = f"{anchors[number].name} (stride {anchors[number].stride})"
            if isinstance(module, nn.Conv2d):
                lines = [level_convolution(part, module, call, head, anchors[number].per_cell)]
            else:
                lines = RULES[type(module)](part, module, call)
            for line in lines:
                weights = line.parameters if number == 0 else None  # weights count once
                if line.macs or weights:
                    found[number].append(replace(line, label=f"{level}: {line.label}", parameters=weights))
    for lines in found:
        yield from lines


def _level(stride: int) -> str:
    """Return the name of a level: P2 has a stride of 4."""
    return f"P{round(log2(stride))}"
