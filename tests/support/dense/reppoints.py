"""A small RepPoints v2 with the golden weights of Swin's repository, whose backbone returns the golden maps."""

from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.layers.dense.points.bifpn import BiFpn
from patchword.layers.dense.points.reppoints_detector import RepPointsDetector
from patchword.layers.dense.points.reppoints_head import RepPointsHead
from patchword.layers.dense.selection import Selection
from patchword.objectives.detection.assigners import AtssAssigner
from patchword.weights.names.detection import mmdet_reppoints
from support.dense.detectors import GivenMaps, Golden, golden_detector

WIDTH, GROUPS, CLASSES = 32, 8, 5


def golden_maps(golden: Golden) -> list[Tensor]:
    """The maps of strides 8, 16 and 32."""
    return [golden[f"in.map{level}"] for level in range(3)]


def golden_reppoints() -> tuple[Golden, RepPointsDetector]:
    golden = golden_detector("reppoints_v2")
    neck = BiFpn((12, 16, 24), WIDTH, extra=2, rounds=2, groups=GROUPS)
    head = RepPointsHead(
        WIDTH, CLASSES, depth=3, shared_depth=1, corner_width=8, groups=GROUPS, merge_groups=32
    )  # 32 is fixed in the authors' code
    rule = Selection(max_boxes=30, nms_threshold=0.6, pre_nms_per_level=60, score_threshold=0.3)
    detector = RepPointsDetector(GivenMaps(), neck, head, (8, 16, 32, 64, 128), rule)
    theirs = {name.removeprefix("weight."): one for name, one in golden.tensors.items() if name.startswith("weight.")}
    ours, unknown = mmdet_reppoints.HEADS.to_ours(theirs)
    assert not unknown, unknown
    detector.load_state_dict(ours)
    assert {name: one.shape for name, one in mmdet_reppoints.HEADS.to_theirs(ours).items()} == {
        name: one.shape for name, one in theirs.items()
    }
    return golden, detector.eval()


@dataclass(frozen=True)
class RepeatedCandidates(AtssAssigner):
    """ATSS with repeated candidates, as in the golden losses.

    On a level with fewer cells than candidates, the authors' code repeats cells that it draws with Python's generator,
    which moves mean and standard deviation of the IoU. Ours takes each cell once. The golden maps have levels of 6 and
    2 cells. 160 draws per image are possible; they lead to eight assignments of the batch, and only one of them to
    the golden losses. These repeated cells lead to that one.
    """

    repeated: tuple[int, ...] = (420, 421, 422, 426, 426, 427, 427, 427, 427, 427)

    def _candidates(self, anchors, objects: Tensor) -> Tensor:
        found = super()._candidates(anchors, objects)
        return torch.cat([found, torch.tensor(self.repeated).expand(*found.shape[:2], -1)], dim=2)
