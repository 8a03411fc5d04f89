"""A comparison of detectors and segmenters: tables, a spreadsheet, and figures of AP and mIoU over MACs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchword.analysis.cost.detection import CONVENTION
from patchword.analysis.published.comparison import APART
from patchword.analysis.published.dense_comparison import DenseRow
from patchword.reports.colors import style_of
from patchword.reports.comparison.comparison import MARK, Comparison, Figures, Sheet, printed, rate
from patchword.reports.comparison.scatter import Point, scatter_figure

COLUMNS = (
    "detector",
    "backbone",
    "schedule",
    "box AP, published",
    "mask AP, published",
    "params (M), published",
    "params (M), counted",
    "MACs (G), published",
    "MACs (G), counted",
    "source",
    "images/s",
)
SEGMENTER_COLUMNS = (
    "segmenter",
    "backbone",
    "schedule",
    "mIoU, published",
    "size",
    *COLUMNS[5:],
)
LEFT = ("detector", "segmenter", "backbone", "schedule", "size", "source")
_MACS = "multiply-accumulates per image (G, counted)"
_LETTERS = {
    "mask-rcnn": "Mask",
    "cascade-mask-rcnn": "Cascade",
    "atss": "ATSS",
    "retinanet": "RetinaNet",
    "reppoints-v2": "RepPoints",
    "sparse-rcnn": "Sparse",
    "detr": "DETR",
    "upernet": "UperNet",
    "semantic-fpn": "FPN",
}


_CAPTIONS = (
    "Published {kind}, COCO val2017; MACs at 1280 x 800 as counted here, for 1,000 boxes in each box head and 100 "
    "in each mask head. Hollow: 12 epochs (1x); filled: longer.",
    "Published {kind}, ADE20K, tested at one scale; MACs as counted here: UperNet and CSWin at 512 x 2048, the "
    "others at 512 x 512.",
)
DETR_MACS = (
    "DETR's published MACs are the mean over images of COCO of several sizes: 81 G at 800 x 1066 and 97 G at 800 x 1280"
)
SEGMENTER_NOTE = "mIoU: ADE20K, percent, tested at one scale; MACs at the size (height x width) in the table"


@dataclass(frozen=True)
class DenseComparison(Comparison):
    """Rows, and the conditions of their measurement. how: one line; empty if nothing was measured."""

    rows: Sequence[DenseRow]
    machine: dict[str, Any]
    how: str = ""
    title: str = "Detectors and segmenters: published, counted, measured"

    def sheets(self) -> list[Sheet]:
        detectors = [self.cells(row) for row in self.rows if not row.is_segmenter]
        segmenters = [self.cells(row) for row in self.rows if row.is_segmenter]
        found = (Sheet(COLUMNS, LEFT, detectors), Sheet(SEGMENTER_COLUMNS, LEFT, segmenters))
        return [sheet for sheet in found if sheet.lines]

    def cells(self, row: DenseRow) -> list[str]:
        """Return a row of the table of detectors, or of that of segmenters."""
        published, marks = row.published, row.marks()
        scores = [printed(published.box_ap), printed(published.mask_ap)]
        if row.is_segmenter:
            scores = [printed(published.miou), " x ".join(map(str, published.size))]
        return [
            published.system,
            published.backbone,
            published.schedule,
            *scores,
            printed(published.parameters, "parameters" in marks),
            f"{row.parameters / 1e6:.2f}",
            printed(published.macs, "MACs" in marks),
            f"{row.macs / 1e9:.1f}",
            str(self.sources().index(published.source) + 1),
            rate(row.speed.rate) if row.speed else "failed" if row.failure else "",
        ]

    def notes(self) -> list[str]:
        notes = []
        if any(not row.is_segmenter for row in self.rows):
            notes += ["AP: COCO val2017, percent; 1x is 12 epochs, 3x is 36", CONVENTION]
        if any(row.published.system == "detr" for row in self.rows):
            notes.append(DETR_MACS)
        if any(row.is_segmenter for row in self.rows):
            notes.append(SEGMENTER_NOTE)
        if self.how:
            notes.append(f"images/s: inference on random pixels, the median of repeated calls; {self.how}")
        remarks = [f"{row.published.name}, {what}: {text}" for row in self.rows for what, text in row.marks().items()]
        if remarks:
            notes += [f"figures with {MARK} differ from the count by more than {APART:.0%}:", *remarks]
        return notes + [
            f"{row.published.name} could not be measured: {row.failure}" for row in self.rows if row.failure
        ]

    def sources(self) -> list[str]:
        return list(dict.fromkeys(row.published.source for row in self.rows))

    def records(self) -> list[dict[str, object]]:
        return [_record(row, self) for row in self.rows]

    def figures(self) -> Figures:
        boxes, masks, miou = (_scatter(self.rows, kind) for kind in ("box AP", "mask AP", "mIoU"))
        return {"box-ap-over-macs": boxes, "mask-ap-over-macs": masks, "miou-over-macs": miou}

    def to_json(self) -> dict[str, Any]:
        detectors = [row.to_json() for row in self.rows if not row.is_segmenter]
        segmenters = [row.to_json() for row in self.rows if row.is_segmenter]
        return {"machine": self.machine, "measured": self.how, "detectors": detectors, "segmenters": segmenters}


def _scatter(rows: Sequence[DenseRow], kind: str) -> dict[str, bytes]:
    """Draw a published score over counted MACs: a colour per family of backbones, a line through the sizes of one."""
    points = []
    for row in rows:
        published = row.published
        value = {"box AP": published.box_ap, "mask AP": published.mask_ap, "mIoU": published.miou}[kind]
        if value is None:
            continue
        size = published.backbone.rpartition("-")[2]
        label = f"{_LETTERS.get(published.system, published.system)} {size}"
        line = row.family, published.system, published.schedule
        style = style_of(row.family)
        points.append(Point(row.family, label, row.macs / 1e9, value, line, style, published.schedule != "1x"))
    return scatter_figure(points, _MACS, f"{kind} (%)", _CAPTIONS[kind == "mIoU"].format(kind=kind))


def _record(row: DenseRow, comparison: DenseComparison) -> dict[str, object]:
    published, speed = row.published, row.speed
    return {
        "system": published.system,
        "backbone": published.backbone,
        "schedule": published.schedule,
        "published_box_ap": published.box_ap,
        "published_mask_ap": published.mask_ap,
        "published_miou": published.miou,
        "size": " x ".join(map(str, published.size)),
        "published_parameters_millions": published.parameters,
        "parameters": row.parameters,
        "published_macs_billions": published.macs,
        "macs": row.macs,
        "source": published.source,
        "images_per_second": speed and round(speed.rate, 3),
        "batch": speed and speed.batch,
        "device": comparison.device if speed else None,
        "note": "; ".join([*row.marks().values(), *([row.failure] if row.failure else [])]),
    }
