"""RepPoints v2 as in Swin's tables: a bidirectional feature pyramid, points, corners and a semantic map."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import PositiveInt
from torch import nn

from patchword.core.errors import UserError
from patchword.layers.dense.backbones import NormedMaps
from patchword.layers.dense.points.bifpn import BiFpn
from patchword.layers.dense.points.reppoints_detector import RepPointsDetector
from patchword.layers.dense.points.reppoints_head import RepPointsHead
from patchword.layers.dense.selection import Selection
from patchword.models.dense.backbones import dense_backbone
from patchword.models.detection.config import DetectorConfig
from patchword.models.detection.family import DetectorFamily


@dataclass(frozen=True, kw_only=True)
class RepPointsConfig(DetectorConfig):
    """Sizes of RepPoints v2.

    rounds: passes of the neck in both directions. depth: convolutions of each tower of the head.
    shared_depth: convolutions before corners and semantic map. corner_width: channels of the pooled corners.
    groups: of group normalization. corner_groups: of the norms that merge pooled corners; None: as many as `groups`.
    """

    rounds: PositiveInt = 2
    depth: PositiveInt = 3
    shared_depth: PositiveInt = 1
    corner_width: PositiveInt = 64
    groups: PositiveInt = 32
    corner_groups: PositiveInt | None = None


def build_reppoints(c: RepPointsConfig) -> RepPointsDetector:
    """Build a RepPoints v2 on the maps from stride 8 on and two coarser levels."""
    for field, value, groups in (
        ("width", c.width, c.groups),
        ("corner_width", c.corner_width, c.groups),
        ("width", c.width, c.corner_groups or c.groups),
    ):
        if value % groups or value < 2 * groups:
            expected = f"a multiple of {groups}, at least {2 * groups}"
            raise UserError(f"the {field} of a RepPoints v2", expected=expected, got=value)
    backbone = dense_backbone(c)
    used = [place for place, stride in enumerate(backbone.strides) if stride >= 8]
    if not used:
        raise UserError(
            f"{c.backbone!r} as the backbone of a RepPoints v2",
            expected="a map of stride 8 or more",
            got=f"strides {', '.join(map(str, backbone.strides))}",
        )
    if isinstance(backbone, NormedMaps):  # the authors' code has no norm for a map that is not used
        for place in range(used[0]):
            backbone.norms[place] = nn.Identity()
    strides = [backbone.strides[place] for place in used]
    strides += [2 * strides[-1], 4 * strides[-1]]
    widths = [backbone.widths[place] for place in used]
    neck = BiFpn(widths, c.width, extra=2, rounds=c.rounds, groups=c.groups)
    head = RepPointsHead(
        c.width,
        c.classes,
        depth=c.depth,
        shared_depth=c.shared_depth,
        corner_width=c.corner_width,
        groups=c.groups,
        merge_groups=c.corner_groups,
    )
    return RepPointsDetector(backbone, neck, head, strides, Selection(c.max_detections, 0.6, score_threshold=0.05))


POINT_DETECTORS: Mapping[str, DetectorFamily] = {
    "reppoints-v2": DetectorFamily(
        "RepPoints v2", "arXiv:2007.08508", RepPointsConfig(), build_reppoints, 42_132_528, 272_245_959_680
    ),
}
