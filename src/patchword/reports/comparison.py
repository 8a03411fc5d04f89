"""A comparison of models on paper: a table, a CSV, and two pictures."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchword.analysis.comparison import APART, Row
from patchword.core.files import whole_file
from patchword.recipes.timing import MEMORY, Setting
from patchword.reports import scatter

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
MARK = "*"


@dataclass(frozen=True)
class Comparison:
    """Rows, and how they were measured. setting: None if nothing was to be measured."""

    rows: Sequence[Row]
    setting: Setting | None
    machine: dict[str, Any]

    @property
    def device(self) -> str:
        """The machine in a few words."""
        name, processor = self.machine["device"], self.machine["processor"]
        return f"CPU ({processor})" if name == "cpu" else str(name)

    def how(self) -> str:
        """The conditions of the measurement in one line."""
        if self.setting is None:
            return "nothing was measured"
        how = f"{self.device}, batch {self.setting.batch}, {self.setting.precision}, torch {self.machine['torch']}"
        return f"{how}, compiled" if self.setting.compiled else how

    def notes(self) -> list[str]:
        """What a reader of the table must know."""
        told = []
        if self.setting:
            device = self.setting.device.partition(":")[0]
            told.append(f"images/s: inference on random pixels, the median of repeated calls; {self.how()}")
            told.append(MEMORY.get(device, "memory: not known on this device"))
            if device == "cpu" and self.setting.compiled:
                told.append("compiled: the memory is also the compiler's")
            if device == "cuda" and self.setting.precision == "float32":
                told.append("float32: as torch has it, matrix products in full, convolutions perhaps in TF32")
        if remarks := [remark for row in self.rows for remark in row.remarks()]:
            told += [f"figures with {MARK} are more than {APART:.0%} from the count:", *remarks]
        for row in self.rows:
            if self.setting and row.speed and row.speed.batch < self.setting.batch:
                told.append(f"{row.model}: batch {row.speed.batch}, for want of memory")
            if row.failure:
                told.append(f"{row.model} could not be measured: {row.failure}")
        return told

    def sources(self) -> list[str]:
        return list(dict.fromkeys(row.published.source for row in self.rows if row.published.source))

    def cells(self, row: Row) -> list[str]:
        """A row of the table; sources are numbered from 1."""
        published, speed, marks = row.published, row.speed, row.marks()
        return [
            row.model,
            str(row.image[0]) if row.image[0] == row.image[1] else " x ".join(str(side) for side in row.image),
            _printed(published.parameters, "parameters" in marks),
            f"{row.parameters / 1e6:.2f}",
            _printed(published.macs, "MACs" in marks),
            f"{row.macs / 1e9:.2f}",
            _printed(published.top1),
            published.trained,
            str(self.sources().index(published.source) + 1) if published.source else "",
            _rate(speed.images_per_second) if speed else "failed" if row.failure else "",
            f"{speed.memory / 2**20:,.0f}" if speed and speed.memory is not None else "",
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "setting": vars(self.setting) if self.setting else None,
            "models": [row.to_json() for row in self.rows],
        }


def _printed(figure: float | None, mark: bool = False) -> str:
    return "" if figure is None else f"{figure:g}{MARK if mark else ''}"


def _rate(images_per_second: float) -> str:
    return f"{images_per_second:,.0f}" if images_per_second >= 100 else f"{images_per_second:.3g}"


def table(comparison: Comparison) -> str:
    """table.md"""
    lines = [COLUMNS, ["---" if title in LEFT else "---:" for title in COLUMNS]]
    lines += [comparison.cells(row) for row in comparison.rows]
    text = ["# Models: published, counted, measured", "", *(f"| {' | '.join(line)} |" for line in lines), ""]
    text += [f"- {note}" for note in comparison.notes()]
    sources = [f"{number}. {told}" for number, told in enumerate(comparison.sources(), 1)]
    return "\n".join([*text, *(["", "Sources:", "", *sources] if sources else []), ""])


def spreadsheet(comparison: Comparison) -> str:
    """comparison.csv: whole numbers, empty where nothing is known"""
    text = io.StringIO()
    records = [_record(row, comparison) for row in comparison.rows]
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _record(row: Row, comparison: Comparison) -> dict[str, object]:
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
        "images_per_second": speed and round(speed.images_per_second, 3),
        "batch": speed and speed.batch,
        "precision": setting and setting.precision,
        "compiled": setting and setting.compiled,
        "device": comparison.device if speed else None,
        "torch": comparison.machine["torch"] if speed else None,
        "peak_memory_bytes": speed and speed.memory,
        "note": "; ".join([*row.remarks(), *([row.failure] if row.failure else [])]),
    }


def write_comparison(comparison: Comparison, folder: Path) -> list[Path]:
    """Everything is made before anything is written; a picture that would be empty is left out."""
    files = {"table.md": table(comparison).encode(), "comparison.csv": spreadsheet(comparison).encode()}
    caption = f"Measured on this machine: {comparison.how()}."
    for name, pictures in (
        ("top1-over-macs", scatter.accuracy(comparison.rows)),
        ("speed-over-macs", scatter.speed(comparison.rows, caption)),
    ):
        files |= {f"{name}.{kind}": content for kind, content in pictures.items()}
        for kind in ("svg", "png"):
            (folder / f"{name}.{kind}").unlink(missing_ok=True)  # of another comparison
    for name, content in files.items():
        with whole_file(folder / name) as temporary:
            temporary.write_bytes(content)
    return [folder / name for name in files]
