"""A comparison of image models: a table, a spreadsheet, and two figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchword.analysis.published.comparison import APART, Row
from patchword.reports.comparison import scatter
from patchword.reports.comparison.comparison import MARK, Comparison, Figures, Sheet, printed, rate
from patchword.timing.images import MEMORY, Setting

COLUMNS = (
    "model",
    "image",
    "params (M), published",
    "params (M), counted",
    "MACs (G), published",
    "MACs (G), counted",
    "top-1 (%), published",
    "trained on",
    "source",
    "images/s",
    "memory (MiB)",
)
LEFT = ("model", "trained on", "source")  # the others are numbers


@dataclass(frozen=True)
class ImageComparison(Comparison):
    """Rows, and the conditions of their measurement. setting: None if nothing was measured."""

    rows: Sequence[Row]
    setting: Setting | None
    machine: dict[str, Any]
    title: str = "Models: published, counted, measured"

    def how(self) -> str:
        """Return the conditions of the measurement in one line."""
        if self.setting is None:
            return "nothing was measured"
        how = f"{self.device}, batch {self.setting.batch}, {self.setting.precision}, torch {self.machine['torch']}"
        return f"{how}, compiled" if self.setting.compiled else how

    def notes(self) -> list[str]:
        notes = []
        if self.setting:
            device = self.setting.device.partition(":")[0]
            notes.append(f"images/s: inference on random pixels, the median of repeated calls; {self.how()}")
            notes.append(MEMORY.get(device, "memory: not known on this device"))
            if device == "cpu" and self.setting.compiled:
                notes.append("compiled: the memory includes the compiler's")
            if device == "cuda" and self.setting.precision == "float32":
                notes.append("float32: torch's defaults, full-precision matrix products, convolutions possibly in TF32")
        if remarks := [remark for row in self.rows for remark in row.remarks()]:
            notes += [f"figures with {MARK} differ from the count by more than {APART:.0%}:", *remarks]
        for row in self.rows:
            if self.setting and row.speed and row.speed.batch < self.setting.batch:
                notes.append(f"{row.model}: batch {row.speed.batch}, because of memory")
            if row.failure:
                notes.append(f"{row.model} could not be measured: {row.failure}")
        return notes

    def sources(self) -> list[str]:
        return list(dict.fromkeys(row.published.source for row in self.rows if row.published.source))

    def sheets(self) -> list[Sheet]:
        return [Sheet(COLUMNS, LEFT, [self.cells(row) for row in self.rows])]

    def cells(self, row: Row) -> list[str]:
        """Return a row of the table."""
        published, speed, marks = row.published, row.speed, row.marks()
        return [
            row.model,
            str(row.image[0]) if row.image[0] == row.image[1] else " x ".join(str(side) for side in row.image),
            printed(published.parameters, "parameters" in marks),
            f"{row.parameters / 1e6:.2f}",
            printed(published.macs, "MACs" in marks),
            f"{row.macs / 1e9:.2f}",
            printed(published.top1),
            published.trained,
            str(self.sources().index(published.source) + 1) if published.source else "",
            rate(speed.rate) if speed else "failed" if row.failure else "",
            f"{speed.memory / 2**20:,.0f}" if speed and speed.memory is not None else "",
        ]

    def records(self) -> list[dict[str, object]]:
        return [_record(row, self) for row in self.rows]

    def figures(self) -> Figures:
        return {
            "top1-over-macs": scatter.accuracy(self.rows),
            "speed-over-macs": scatter.speed(self.rows, f"Measured on this machine: {self.how()}."),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "setting": vars(self.setting) if self.setting else None,
            "models": [row.to_json() for row in self.rows],
        }


def _record(row: Row, comparison: ImageComparison) -> dict[str, object]:
    published, speed, setting = row.published, row.speed, comparison.setting if row.speed else None
    return {
        "model": row.model,
        "family": row.family,
        "image_height": row.image[0],
        "image_width": row.image[1],
        "published_parameters_millions": published.parameters,
        "parameters": row.parameters,
        "published_macs_billions": published.macs,
        "macs": row.macs,
        "published_top1_percent": published.top1,
        "trained_on": published.trained,
        "source": published.source,
        "images_per_second": speed and round(speed.rate, 3),
        "batch": speed and speed.batch,
        "precision": setting and setting.precision,
        "compiled": setting and setting.compiled,
        "device": comparison.device if speed else None,
        "torch": comparison.machine["torch"] if speed else None,
        "peak_memory_bytes": speed and speed.memory,
        "note": "; ".join([*row.remarks(), *([row.failure] if row.failure else [])]),
    }
