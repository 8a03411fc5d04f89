"""Small detectors with the golden weights of mmdet, whose backbone returns the golden maps."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from patchword.core.geometry.objects import Targets
from patchword.layers.dense.anchor_detector import AnchorDetector, Proposer
from patchword.layers.dense.anchors import Anchors
from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.dense_head import DenseHead
from patchword.layers.dense.fpn import Fpn
from patchword.layers.dense.roi_heads import BoxHead, MaskHead, RoiPool
from patchword.layers.dense.selection import Selection
from patchword.weights.names.detection import mmdet

FOLDER = Path(__file__).parents[2] / "golden"
CLASSES, WIDTH, STRIDES = 5, 16, (4, 8, 16, 32)


class GivenMaps(nn.Module):
    """A backbone whose "images" are its maps."""

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        return maps


@dataclass(frozen=True)
class Golden:
    """The golden tensors of one detector."""

    tensors: dict[str, Tensor]
    config: dict

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name].clone()

    @property
    def maps(self) -> list[Tensor]:
        return [self[f"in.map{level}"] for level in range(4)]

    @property
    def sizes(self) -> Tensor:
        return torch.tensor([[128, 160], [120, 150]])

    @property
    def targets(self) -> Targets:
        boxes, labels = ([self[f"gt.{image}.{kind}"] for image in range(2)] for kind in ("boxes", "labels"))
        masks = [self[f"gt.{image}.masks"].bool() for image in range(2)] if "gt.0.masks" in self.tensors else None
        return Targets.of(boxes, labels, self.sizes, masks)

    def levels(self, name: str) -> list[Tensor]:
        """All maps whose name starts so, finest first."""
        return [self[f"{name}.{level}"] for level in range(5)]


@cache
def golden_detector(file: str, part: str = "") -> Golden:
    """Read a file, or one detector of a file."""
    with safe_open(FOLDER / f"dense_{file}.safetensors", "pt") as opened:
        tensors = {
            name.removeprefix(part): opened.get_tensor(name)
            for name in list(opened.keys())  # the file itself cannot be iterated
            if name.startswith(part)
        }
        config = json.loads(opened.metadata()[f"{part.replace('/', '.')}config"])
    return Golden(tensors, config)


def with_golden_weights(detector: AnchorDetector, golden: Golden) -> AnchorDetector:
    """Load mmdet's tensors."""
    theirs = {name.removeprefix("weight."): one for name, one in golden.tensors.items() if name.startswith("weight.")}
    ours, unknown = mmdet.HEADS.to_ours(theirs)
    assert not unknown, unknown
    detector.load_state_dict(ours)
    return detector.eval()


def proposer(border_rule: Selection | None = None) -> Proposer:
    """A region proposal network with mmdet's anchors."""
    anchors = Anchors(tuple((8.0 * stride,) for stride in (*STRIDES, 64)), (0.5, 1.0, 2.0), rounded=False)
    head = DenseHead(WIDTH, 1, 3, hidden=WIDTH, depth=1, shared=True, kernel=1)
    rule = border_rule or Selection(max_boxes=60, nms_threshold=0.7, pre_nms_per_level=300, min_size=1)
    training = Selection(max_boxes=60, nms_threshold=0.7, pre_nms_per_level=400, min_size=1)
    return Proposer(head, anchors, coder(1, 1, 1, 1), (*STRIDES, 64), rule, training)


def coder(*stds: float) -> BoxCoder:
    return BoxCoder(stds, clamp_below=True)


RESULTS = Selection(max_boxes=30, nms_threshold=0.5, score_threshold=0.1)


def mask_rcnn(golden: Golden) -> AnchorDetector:
    neck = Fpn((8, 12, 16, 24), WIDTH, extra=1, extra_from="pool")
    box = BoxHead(RoiPool(STRIDES, 7), coder(0.1, 0.1, 0.2, 0.2), WIDTH, CLASSES, layers=2, hidden=32)
    mask = MaskHead(RoiPool(STRIDES, 14), WIDTH, CLASSES, inner=12)
    return with_golden_weights(AnchorDetector(GivenMaps(), neck, proposer(), [box], [mask], RESULTS), golden)


def cascade(golden: Golden) -> AnchorDetector:
    neck = Fpn((8, 12, 16, 24), WIDTH, extra=1, extra_from="pool")
    stds = [(0.1, 0.1, 0.2, 0.2), (0.05, 0.05, 0.1, 0.1), (0.033, 0.033, 0.067, 0.067)]
    pool = RoiPool(STRIDES, 7)
    sizes = {"layers": 1, "hidden": 32, "convolutions": 4, "inner": 12}
    boxes = [BoxHead(pool, coder(*each), WIDTH, CLASSES, **sizes) for each in stds]
    masks = [MaskHead(RoiPool(STRIDES, 14), WIDTH, CLASSES, inner=12) for _ in stds]
    return with_golden_weights(AnchorDetector(GivenMaps(), neck, proposer(), boxes, masks, RESULTS), golden)


def one_stage(golden: Golden, system: str) -> AnchorDetector:
    is_atss, strides = system == "atss", (8, 16, 32, 64, 128)
    neck = Fpn((12, 16, 24), WIDTH, extra=2, extra_from="output" if is_atss else "input")
    lengths = tuple(
        (8.0 * stride,) if is_atss else tuple(4 * stride * 2 ** (part / 3) for part in range(3)) for stride in strides
    )
    anchors = Anchors(lengths, (1.0,) if is_atss else (0.5, 1.0, 2.0), rounded=False)
    given = {"groups": 8, "levels": 5, "centerness": True} if is_atss else {}
    head = DenseHead(WIDTH, CLASSES, anchors.per_cell, hidden=WIDTH, depth=4, shared=False, **given)
    rule = Selection(max_boxes=30, nms_threshold=0.6 if is_atss else 0.5, pre_nms_per_level=60, score_threshold=0.3)
    boxes = coder(0.1, 0.1, 0.2, 0.2) if is_atss else coder(1, 1, 1, 1)
    detector = AnchorDetector(GivenMaps(), neck, Proposer(head, anchors, boxes, strides, rule))
    return with_golden_weights(detector, golden)
