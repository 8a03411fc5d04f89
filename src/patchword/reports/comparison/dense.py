"""A comparison of detectors: a table, a spreadsheet, and figures of AP over MACs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchword.analysis.cost.detection import CONVENTION
from patchword.analysis.published.comparison import APART
from patchword.analysis.published.dense_comparison import DenseRow
from patchword.reports.comparison.comparison import MARK, Comparison, Figures, Sheet, printed, rate
from patchword.reports.comparison.scatter import OTHER, STYLES, Point, scatter_figure

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
LEFT = ("detector", "backbone", "schedule", "source")
_MACS = "multiply-accumulates per image of 1280 x 800 (G, counted)"
_LETTERS = {"mask-rcnn": "Mask", "cascade-mask-rcnn": "Cascade", "atss": "ATSS", "retinanet": "RetinaNet"}


@dataclass(frozen=True)
class DenseComparison(Comparison):
    """Rows, and the conditions of their measurement. how: one line; empty if nothing was measured."""

    rows: Sequence[DenseRow]
    machine: dict[str, Any]
    how: str = ""
    title: str = "Detectors: published, counted, measured"

    def sheets(self) -> list[Sheet]:
        return [Sheet(COLUMNS, LEFT, [self.cells(row) for row in self.rows])]

    def cells(self, row: DenseRow) -> list[str]:
        """Return a row of the table."""
        published, marks = row.published, row.marks()
        return [
            published.detector,
            published.backbone,
            published.schedule,
            printed(published.box_ap),
            printed(published.mask_ap),
            printed(published.parameters, "parameters" in marks),
            "" if row.parameters is None else f"{row.parameters / 1e6:.2f}",
            printed(published.macs, "MACs" in marks),
            "" if row.macs is None else f"{row.macs / 1e9:.1f}",
            str(self.sources().index(published.source) + 1),
            rate(row.speed.rate) if row.speed else "failed" if row.failure else "",
        ]

    def notes(self) -> list[str]:
        notes = ["AP: COCO val2017, percent; 1x is 12 epochs, 3x is 36", CONVENTION]
        if self.how:
            notes.append(f"images/s: inference on random pixels, the median of repeated calls; {self.how}")
        remarks = [f"{row.published.name}, {what}: {text}" for row in self.rows for what, text in row.marks().items()]
        if remarks:
            notes += [f"figures with {MARK} differ from the count by more than {APART:.0%}:", *remarks]
        if any(not row.can_be_built for row in self.rows):
            notes.append("detectors without counts cannot be built here")
        return notes + [
            f"{row.published.name} could not be measured: {row.failure}" for row in self.rows if row.failure
        ]

    def sources(self) -> list[str]:
        return list(dict.fromkeys(row.published.source for row in self.rows))

    def records(self) -> list[dict[str, object]]:
        return [_record(row, self) for row in self.rows]

    def figures(self) -> Figures:
        return {"box-ap-over-macs": _scatter(self.rows, "box"), "mask-ap-over-macs": _scatter(self.rows, "mask")}

    def to_json(self) -> dict[str, Any]:
        return {"machine": self.machine, "measured": self.how, "detectors": [row.to_json() for row in self.rows]}


def _scatter(rows: Sequence[DenseRow], kind: str) -> dict[str, bytes]:
    """Draw published AP over counted MACs: a colour per family of backbones, a line through the sizes of one."""
    points = []
    for row in rows:
        published = row.published
        value = published.box_ap if kind == "box" else published.mask_ap
        if row.macs is None or value is None:
            continue
        size = published.backbone.rpartition("-")[2]
        label = f"{_LETTERS.get(published.detector, published.detector)} {size}"
        line = row.family, published.detector, published.schedule
        style = STYLES.get(row.family, OTHER)
        points.append(Point(row.family, label, row.macs / 1e9, value, line, style, published.schedule != "1x"))
    caption = (
        f"{kind.capitalize()} AP as published, COCO val2017; MACs as counted here, for 1,000 boxes in each box "
        "head and 100 in each mask head. Hollow: 12 epochs (1x); filled: 36 epochs with multi-scale training (3x)."
    )
    return scatter_figure(points, _MACS, f"{kind} AP (%)", caption)


def _record(row: DenseRow, comparison: DenseComparison) -> dict[str, object]:
    published, speed = row.published, row.speed
    return {
        "detector": published.detector,
        "backbone": published.backbone,
        "schedule": published.schedule,
        "published_box_ap": published.box_ap,
        "published_mask_ap": published.mask_ap,
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
