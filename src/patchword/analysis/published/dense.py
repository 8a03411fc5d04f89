"""Published figures of detectors on COCO val2017, each with its source.

Figures are as printed. A figure that was not published, or could not be verified, is None. AP is box AP and mask AP.
"""

from dataclasses import dataclass

SWIN = "Liu et al. 2021 (arXiv 2103.14030), table 2 and the authors' detection README"
CSWIN = "Dong et al. 2021 (arXiv 2107.00652), authors' README"
PVT = "Wang et al. 2021 (arXiv 2102.12122)"
MMDET = "mmdetection's model zoo"
DETR = "Carion et al. 2020 (arXiv 2005.12872)"

ONE, THREE = "1x", "3x, multi-scale"


@dataclass(frozen=True)
class PublishedDetector:
    """The published figures of one detector on one backbone.

    schedule: 1x is 12 epochs, 3x is 36. parameters: millions. macs: billions at 1280 x 800, printed as FLOPs.
    window_padding: the field of the detector with which these MACs were counted.
    """

    detector: str
    backbone: str
    box_ap: float | None
    mask_ap: float | None
    schedule: str
    parameters: float | None
    macs: float | None
    source: str
    window_padding: str = "masked"

    @property
    def name(self) -> str:
        """Return e.g. "mask-rcnn, swin-tiny, 1x"."""
        return f"{self.detector}, {self.backbone}, {self.schedule}"


_CASCADE = "cascade-mask-rcnn"

PUBLISHED_DETECTORS = (
    PublishedDetector("mask-rcnn", "resnet-50", 38.2, 34.7, ONE, None, None, MMDET),
    PublishedDetector("mask-rcnn", "swin-tiny", 43.7, 39.8, ONE, 48, 267, SWIN, "attended"),
    PublishedDetector("mask-rcnn", "swin-tiny", 46.0, 41.6, THREE, 48, 267, SWIN, "attended"),
    PublishedDetector("mask-rcnn", "cswin-tiny", 49.0, 43.6, THREE, 42, 279, CSWIN),
    PublishedDetector("mask-rcnn", "cswin-small", 50.0, 44.5, THREE, 54, 342, CSWIN),
    PublishedDetector("mask-rcnn", "cswin-base", 50.8, 44.9, THREE, 97, 526, CSWIN),
    PublishedDetector("mask-rcnn", "pvt-tiny", 36.7, 35.1, ONE, None, None, PVT),
    PublishedDetector("mask-rcnn", "pvt-small", 40.4, 37.8, ONE, 44.1, None, PVT),
    PublishedDetector("mask-rcnn", "pvt-medium", 42.0, 39.0, ONE, None, None, PVT),
    PublishedDetector("mask-rcnn", "pvt-large", 42.9, 39.5, ONE, None, None, PVT),
    PublishedDetector(_CASCADE, "resnet-50", 46.3, 40.1, THREE, 82, 739, SWIN),
    PublishedDetector(_CASCADE, "swin-tiny", 50.5, 43.7, THREE, 86, 745, SWIN, "attended"),
    PublishedDetector(_CASCADE, "swin-small", None, 44.7, THREE, None, None, SWIN, "attended"),
    PublishedDetector(_CASCADE, "swin-base", None, 45.0, THREE, None, None, SWIN, "attended"),
    PublishedDetector(_CASCADE, "cswin-tiny", 52.5, 45.3, THREE, 80, 757, CSWIN),
    PublishedDetector(_CASCADE, "cswin-small", 53.7, 46.4, THREE, 92, 820, CSWIN),
    PublishedDetector(_CASCADE, "cswin-base", 53.9, 46.4, THREE, 135, 1004, CSWIN),
    PublishedDetector("atss", "resnet-50", 43.5, None, THREE, 32, 205, SWIN),
    PublishedDetector("atss", "swin-tiny", 47.2, None, THREE, 36, 215, SWIN, "attended"),
    PublishedDetector("retinanet", "resnet-50", 36.5, None, ONE, 38, 239, MMDET),
    PublishedDetector("retinanet", "pvt-tiny", 36.7, None, ONE, None, None, PVT),
    PublishedDetector("retinanet", "pvt-small", 40.4, None, ONE, 34.2, None, PVT),
    PublishedDetector("retinanet", "pvt-medium", 41.9, None, ONE, None, None, PVT),
    PublishedDetector("retinanet", "pvt-large", 42.6, None, ONE, None, None, PVT),
    # detectors that cannot be built here yet: published figures only
    PublishedDetector("reppoints-v2", "resnet-50", 46.5, None, THREE, 42, 274, SWIN),
    PublishedDetector("reppoints-v2", "swin-tiny", 50.0, None, THREE, 45, 283, SWIN, "attended"),
    PublishedDetector("sparse-rcnn", "resnet-50", 44.5, None, THREE, 106, 166, SWIN),
    PublishedDetector("sparse-rcnn", "swin-tiny", 47.9, None, THREE, 110, 172, SWIN, "attended"),
    PublishedDetector("detr", "resnet-50", 42.0, None, "500 epochs", 41, 86, DETR),
)
