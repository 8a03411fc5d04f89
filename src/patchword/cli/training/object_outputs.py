"""What predict writes for a detector: a table, CSV, JSON lines or COCO's result list."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from patchword.cli.common import console
from patchword.cli.text.answers import messages

if TYPE_CHECKING:
    from patchword.pipelines.detection.answer import DetectionAnswer

_NAMED = 5  # images without a prediction that are named


@dataclass(frozen=True)
class ObjectOutputs:
    """Where the results go: files, a folder of drawn images, or JSON on stdout; a table if none is given."""

    csv: Path | None
    jsonl: Path | None
    coco: Path | None
    draw: Path | None
    as_json: bool

    @property
    def is_table(self) -> bool:
        return not (self.csv or self.jsonl or self.coco or self.as_json)


@dataclass(frozen=True)
class Found:
    """The objects of an image, or why there are none."""

    name: str
    answer: "DetectionAnswer | None"
    error: str = ""


def write_objects(
    found: Sequence[Found], outputs: ObjectOutputs, classes: tuple[str, ...], drawn: int, score: float
) -> None:
    """Write the objects of images. score: the lowest score of an object, for a note if there is none."""
    from patchword.core.files import write_json, write_text
    from patchword.objectives.metrics.detection.results import csv_results
    from patchword.reports.plots.numbers import counted

    out = messages(outputs.as_json)
    _report_errors(found, outputs.as_json)
    answered = [(one.name, one.answer) for one in found if one.answer is not None]
    names, answers = [name for name, _ in answered], [answer.found for _, answer in answered]
    number = counted(sum(len(answer.labels) for answer in answers), "object")
    if outputs.csv:
        write_text(outputs.csv, csv_results(answers, names, classes))
        out.print(f"{number} in {outputs.csv}", highlight=False, markup=False)
    if outputs.jsonl:
        write_text(outputs.jsonl, _json_lines(found))
        out.print(f"{number} in {outputs.jsonl}", highlight=False, markup=False)
    if outputs.coco:
        entries, rule = coco_entries(found, classes)
        write_json(outputs.coco, entries)
        out.print(f"{number} in {outputs.coco}; {rule}", highlight=False, markup=False)
    if outputs.as_json:
        typer.echo(_json_lines(found), nl=False)
    if outputs.is_table:
        _print_table(answered)
    if outputs.draw is not None:
        out.print(f"{counted(drawn, 'drawn image')} in {outputs.draw}", highlight=False, markup=False)
    if not any(len(answer.labels) for answer in answers) and score > 0:
        note = f"note: no object has a score of {score:g} or more; a lower --score shows less certain objects"
        out.print(note, highlight=False, markup=False)


def _report_errors(found: Sequence[Found], as_json: bool) -> None:
    wrong = [one for one in found if one.error]
    for one in wrong[:_NAMED]:
        messages(as_json).print(f"note: no prediction: {one.error}", highlight=False, markup=False)
    if len(wrong) > _NAMED:
        messages(as_json).print(f"note: and {len(wrong) - _NAMED:,} more without a prediction", highlight=False)


def coco_entries(found: Sequence[Found], classes: tuple[str, ...]) -> tuple[list[dict[str, object]], str]:
    """Return COCO's result list, with file_name in each record, and a sentence on its numbers."""
    from patchword.objectives.metrics.detection.results import coco_results

    answered = [(one.name, one.answer) for one in found if one.answer is not None]
    stems = [Path(name).stem for name, _ in answered]
    is_numbered = all(stem.isascii() and stem.isdigit() for stem in stems) and len(set(map(int, stems))) == len(stems)
    ids = [int(stem) for stem in stems] if is_numbered else list(range(1, len(stems) + 1))
    entries = coco_results([answer.found for _, answer in answered], ids, range(1, len(classes) + 1))
    names = dict(zip(ids, (name for name, _ in answered), strict=True))
    rule = "image_id is the number in the file name" if is_numbered else "image_id counts the images from 1"
    return (
        [{**entry, "file_name": names[entry["image_id"]]} for entry in entries],
        f"{rule}, category_id counts the classes from 1",
    )


def _json_lines(found: Sequence[Found]) -> str:
    records = (
        {"path": one.name} | (one.answer.record() if one.answer is not None else {"error": one.error}) for one in found
    )
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _print_table(answered: "Sequence[tuple[str, DetectionAnswer]]") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("image", "label", "score", "box (x1, y1, x2, y2)")
    for name, answer in answered:
        for place, cells in enumerate(answer.cells()):
            table.add_row(Text(name if place == 0 else ""), *(Text(cell) for cell in cells.values()))
        table.add_section()
    console().print(table)
