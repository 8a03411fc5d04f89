"""Rows that compare detectors: published, counted and measured figures."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import torch

from patchword.analysis.cost.detection import count_detector
from patchword.analysis.published.comparison import apart
from patchword.analysis.published.dense import PUBLISHED_DETECTORS, PublishedDetector
from patchword.analysis.speed import Speed
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.models.detection import DETECTORS, create_detector


@dataclass(frozen=True)
class DenseRow:
    """One detector on one backbone. parameters, macs: as counted here at 1280 x 800; None if it cannot be built."""

    published: PublishedDetector
    parameters: int | None
    macs: int | None
    speed: Speed | None = None
    failure: str = ""

    @property
    def can_be_built(self) -> bool:
        return self.parameters is not None

    @property
    def family(self) -> str:
        """The title of the family of the backbone."""
        return REGISTRY.find(self.published.backbone)[0].title

    def marks(self) -> dict[str, str]:
        """Return the published figures that differ from the counted ones by more than 3%, and by how much."""
        if self.parameters is None or self.macs is None:
            return {}
        figures = {
            "parameters": (self.published.parameters, self.parameters / 1e6, "M"),
            "MACs": (self.published.macs, self.macs / 1e9, "G"),
        }
        return {what: text for what, figure in figures.items() if (text := apart(*figure))}

    def to_json(self) -> dict[str, Any]:
        """Return all figures of the row."""
        speed = asdict(self.speed) | {"images_per_second": self.speed.rate} if self.speed else None
        counted = {"parameters": self.parameters, "macs": self.macs} if self.can_be_built else None
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
    """Return the published detectors whose detector or backbone matches a name or pattern; all if there are none."""
    chosen = list(words)
    for word in chosen:
        if not any(_matches(one, word) for one in PUBLISHED_DETECTORS):
            names = sorted({name for one in PUBLISHED_DETECTORS for name in (one.detector, one.backbone)})
            raise UserError(f"no published detector matches {word!r}", expected=", ".join(names))
    return [_row(one) for one in PUBLISHED_DETECTORS if not chosen or any(_matches(one, word) for word in chosen)]


def dense_fields(published: PublishedDetector) -> dict[str, Any]:
    """Return the fields of the detector; Swin's published numbers are with attention to the padding of windows."""
    return {"backbone": published.backbone, "window_padding": published.window_padding}


def _matches(one: PublishedDetector, word: str) -> bool:
    return fnmatchcase(one.detector, word) or fnmatchcase(one.backbone, word)


def _row(one: PublishedDetector) -> DenseRow:
    if one.detector not in DETECTORS:
        return DenseRow(one, None, None)
    return DenseRow(one, *_counts(one.detector, tuple(dense_fields(one).items())))


@cache
def _counts(detector: str, fields: tuple[tuple[str, Any], ...]) -> tuple[int, int]:
    with torch.device("meta"):
        card = create_detector(detector, **dict(fields)).card
    cost = count_detector(card)
    return cost.parameters, cost.macs
