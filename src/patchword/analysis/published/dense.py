"""Published figures of detectors on COCO val2017 and of segmenters on ADE20K, each with its source.

Figures are as printed. A figure that was not published, or could not be verified, is None. AP is box AP and mask AP;
mIoU is that of single-scale testing.
"""

from dataclasses import dataclass
from typing import Any

SWIN = "Liu et al. 2021 (arXiv 2103.14030), table 2 and the authors' detection README"
CSWIN = "Dong et al. 2021 (arXiv 2107.00652), authors' README"
PVT = "Wang et al. 2021 (arXiv 2102.12122)"
MMDET = "mmdetection's model zoo"
DETR = "Carion et al. 2020 (arXiv 2005.12872)"

SWIN_ADE = "the authors' README of Swin's segmentation code"
NOT = "no published figures: counted as mmseg builds it"
ONE, THREE = "1x", "3x, multi-scale"


@dataclass(frozen=True)
class PublishedDense:
    """The published figures of one detector or segmenter on one backbone.

    system: the name of the detector or segmenter. schedule: 1x is 12 epochs, 3x is 36; empty if it is not known.
    parameters: millions. macs: billions, printed as FLOPs, at a size of (height, width).
    window_padding: the field of the system with which these MACs were counted.
    deep_stem: the ResNet has the stem of three convolutions that mmseg's has.
    """

    system: str
    backbone: str
    box_ap: float | None
    mask_ap: float | None
    schedule: str
    parameters: float | None
    macs: float | None
    source: str
    window_padding: str = "masked"
    miou: float | None = None
    size: tuple[int, int] = (800, 1280)
    deep_stem: bool = False

    @property
    def name(self) -> str:
        """Return e.g. "mask-rcnn, swin-tiny, 1x"."""
        return ", ".join(filter(None, (self.system, self.backbone, self.schedule)))


_CASCADE = "cascade-mask-rcnn"

PUBLISHED_DETECTORS = (
    PublishedDense("mask-rcnn", "resnet-50", 38.2, 34.7, ONE, None, None, MMDET),
    PublishedDense("mask-rcnn", "swin-tiny", 43.7, 39.8, ONE, 48, 267, SWIN, "attended"),
    PublishedDense("mask-rcnn", "swin-tiny", 46.0, 41.6, THREE, 48, 267, SWIN, "attended"),
    PublishedDense("mask-rcnn", "cswin-tiny", 49.0, 43.6, THREE, 42, 279, CSWIN),
    PublishedDense("mask-rcnn", "cswin-small", 50.0, 44.5, THREE, 54, 342, CSWIN),
    PublishedDense("mask-rcnn", "cswin-base", 50.8, 44.9, THREE, 97, 526, CSWIN),
    PublishedDense("mask-rcnn", "pvt-tiny", 36.7, 35.1, ONE, None, None, PVT),
    PublishedDense("mask-rcnn", "pvt-small", 40.4, 37.8, ONE, 44.1, None, PVT),
    PublishedDense("mask-rcnn", "pvt-medium", 42.0, 39.0, ONE, None, None, PVT),
    PublishedDense("mask-rcnn", "pvt-large", 42.9, 39.5, ONE, None, None, PVT),
    PublishedDense(_CASCADE, "resnet-50", 46.3, 40.1, THREE, 82, 739, SWIN),
    PublishedDense(_CASCADE, "swin-tiny", 50.5, 43.7, THREE, 86, 745, SWIN, "attended"),
    PublishedDense(_CASCADE, "swin-small", None, 44.7, THREE, None, None, SWIN, "attended"),
    PublishedDense(_CASCADE, "swin-base", None, 45.0, THREE, None, None, SWIN, "attended"),
    PublishedDense(_CASCADE, "cswin-tiny", 52.5, 45.3, THREE, 80, 757, CSWIN),
    PublishedDense(_CASCADE, "cswin-small", 53.7, 46.4, THREE, 92, 820, CSWIN),
    PublishedDense(_CASCADE, "cswin-base", 53.9, 46.4, THREE, 135, 1004, CSWIN),
    PublishedDense("atss", "resnet-50", 43.5, None, THREE, 32, 205, SWIN),
    PublishedDense("atss", "swin-tiny", 47.2, None, THREE, 36, 215, SWIN, "attended"),
    PublishedDense("retinanet", "resnet-50", 36.5, None, ONE, 38, 239, MMDET),
    PublishedDense("retinanet", "pvt-tiny", 36.7, None, ONE, None, None, PVT),
    PublishedDense("retinanet", "pvt-small", 40.4, None, ONE, 34.2, None, PVT),
    PublishedDense("retinanet", "pvt-medium", 41.9, None, ONE, None, None, PVT),
    PublishedDense("retinanet", "pvt-large", 42.6, None, ONE, None, None, PVT),
    PublishedDense("reppoints-v2", "resnet-50", 46.5, None, THREE, 42, 274, SWIN),
    PublishedDense("reppoints-v2", "swin-tiny", 50.0, None, THREE, 45, 283, SWIN, "attended"),
    PublishedDense("sparse-rcnn", "resnet-50", 44.5, None, THREE, 106, 166, SWIN),
    PublishedDense("sparse-rcnn", "swin-tiny", 47.9, None, THREE, 110, 172, SWIN, "attended"),
    PublishedDense("detr", "resnet-50", 42.0, None, "500 epochs", 41, 86, DETR),
    PublishedDense("detr", "pvt-small", 34.7, None, "50 epochs", None, None, PVT),
)


def _segmenter(
    system: str,
    backbone: str,
    miou: float | None,
    figures: tuple[float | None, float | None],
    source: str,
    *,
    size: tuple[int, int] = (512, 2048),
    schedule: str = "",
    window_padding: str = "masked",
    deep_stem: bool = False,
) -> PublishedDense:
    padding = window_padding
    return PublishedDense(system, backbone, None, None, schedule, *figures, source, padding, miou, size, deep_stem)


_SWIN: dict[str, Any] = {"schedule": "160,000 steps", "window_padding": "attended"}
PUBLISHED_SEGMENTERS = (
    _segmenter("upernet", "swin-tiny", 44.51, (60, 945), SWIN_ADE, **_SWIN),
    _segmenter("upernet", "swin-small", 47.64, (81, 1038), SWIN_ADE, **_SWIN),
    _segmenter("upernet", "swin-base", 48.13, (121, 1188), SWIN_ADE, **_SWIN),
    _segmenter("upernet", "cswin-tiny", 49.3, (60, 959), CSWIN),
    _segmenter("upernet", "cswin-small", 50.4, (65, 1027), CSWIN),
    _segmenter("upernet", "cswin-base", 51.1, (109, 1222), CSWIN),
    _segmenter("semantic-fpn", "resnet-50", None, (None, None), NOT, size=(512, 512), deep_stem=True),
    _segmenter("semantic-fpn", "cswin-tiny", 48.2, (26, 202), CSWIN),
    _segmenter("semantic-fpn", "cswin-small", 49.2, (None, None), CSWIN),
    _segmenter("semantic-fpn", "cswin-base", 49.9, (None, None), CSWIN),
    _segmenter("semantic-fpn", "pvt-tiny", 35.7, (None, None), PVT, size=(512, 512)),
    _segmenter("semantic-fpn", "pvt-small", 39.8, (None, None), PVT, size=(512, 512)),
    _segmenter("semantic-fpn", "pvt-medium", 41.6, (None, None), PVT, size=(512, 512)),
    _segmenter("semantic-fpn", "pvt-large", 42.1, (None, None), PVT, size=(512, 512)),
)
PUBLISHED_DENSE = (*PUBLISHED_DETECTORS, *PUBLISHED_SEGMENTERS)
