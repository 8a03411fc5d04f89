"""Rows that compare detectors and segmenters: published, counted and measured figures."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import torch

from patchword.analysis.cost.cost import Cost
from patchword.analysis.cost.detection import count_detector
from patchword.analysis.cost.segmentation import count_segmenter
from patchword.analysis.published.comparison import apart
from patchword.analysis.published.dense import PUBLISHED_DENSE, PublishedDense
from patchword.analysis.speed import Speed
from patchword.core.errors import UserError
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.models import REGISTRY
from patchword.models.detection import create_detector
from patchword.models.segmentation import SEGMENTERS, create_segmenter


@dataclass(frozen=True)
class DenseRow:
    """One detector or segmenter on one backbone. parameters, macs: as counted here, at the published size."""

    published: PublishedDense
    parameters: int
    macs: int
    speed: Speed | None = None
    failure: str = ""

    @property
    def is_segmenter(self) -> bool:
        """True for a segmenter, False for a detector."""
        return self.published.system in SEGMENTERS

    @property
    def family(self) -> str:
        """The title of the family of the backbone."""
        return REGISTRY.find(self.published.backbone)[0].title

    def marks(self) -> dict[str, str]:
        """Return the published figures that differ from the counted ones by more than 3%, and by how much."""
        figures = {
            "parameters": (self.published.parameters, self.parameters / 1e6, "M"),
            "MACs": (self.published.macs, self.macs / 1e9, "G"),
        }
        return {what: text for what, figure in figures.items() if (text := apart(*figure))}

    def to_json(self) -> dict[str, Any]:
        """Return all figures of the row."""
        speed = asdict(self.speed) | {"images_per_second": self.speed.rate} if self.speed else None
        counted = {"parameters": self.parameters, "macs": self.macs}
        remarks = [f"{what}: {text}" for what, text in self.marks().items()]
        published = asdict(self.published)
        return {
            "published": published,
            "counted": counted,
            "measured": speed,
            "failure": self.failure,
            "remarks": remarks,
        }


def dense_rows(words: Iterable[str] = ()) -> list[DenseRow]:
    """Return the published systems whose name or backbone matches a name or pattern; all if there are none."""
    chosen = list(words)
    for word in chosen:
        if not any(_matches(one, word) for one in PUBLISHED_DENSE):
            names = sorted({name for one in PUBLISHED_DENSE for name in (one.system, one.backbone)})
            raise UserError(f"no published detector or segmenter matches {word!r}", expected=", ".join(names))
    return [dense_row_of(one) for one in PUBLISHED_DENSE if not chosen or any(_matches(one, word) for word in chosen)]


def dense_fields(published: PublishedDense) -> dict[str, Any]:
    """Return the fields of the system; Swin's published numbers are with attention to the padding of windows."""
    fields: dict[str, Any] = {"backbone": published.backbone, "window_padding": published.window_padding}
    return {**fields, "deep_stem": True} if published.deep_stem else fields


def _matches(one: PublishedDense, word: str) -> bool:
    return fnmatchcase(one.system, word) or fnmatchcase(one.backbone, word)


def create_dense(published: PublishedDense) -> Detector | Segmenter:
    """Create the detector or segmenter with newly initialized weights."""
    create = create_segmenter if published.system in SEGMENTERS else create_detector
    return create(published.system, **dense_fields(published))


@cache
def dense_row_of(published: PublishedDense) -> DenseRow:
    """Return a row without measurements. Counting takes about half a second."""
    with torch.device("meta"):
        card = create_dense(published).card
    count: Callable[..., Cost] = count_segmenter if published.system in SEGMENTERS else count_detector
    cost = count(card, size=published.size)
    return DenseRow(published, cost.parameters, cost.macs)
