"""predict with a segmenter: label maps of images and folders as PNG, drawn images, polygons, CSV or JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from patchword.cli.common import console
from patchword.cli.text.answers import messages, progress
from patchword.core.printable import csv_cell, path_text

if TYPE_CHECKING:
    from patchword.core.errors import UserError
    from patchword.pipelines.segmentation.answer import SegmentationAnswer

_AT_ONCE = 8  # images that are in memory
_NAMED = 5  # images without a prediction that are named
_QUALITY = 92  # of drawn JPEG files


@dataclass(frozen=True)
class LabelOutputs:
    """Where the results go: files, folders of label maps and drawn images, or JSON on stdout; a table if no file of
    results is given."""

    csv: Path | None
    jsonl: Path | None
    masks: Path | None
    draw: Path | None
    polygons: Path | None
    as_json: bool

    @property
    def is_table(self) -> bool:
        return not (self.csv or self.jsonl or self.as_json)


@dataclass
class _Results:
    """Results so far: records for JSON, rows for CSV, cells for the table, regions for polygons, files written."""

    records: list[dict[str, Any]] = field(default_factory=list)
    rows: list[tuple[str, str, str]] = field(default_factory=list)
    cells: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    images: list[dict[str, Any]] = field(default_factory=list)
    regions: list[dict[str, Any]] = field(default_factory=list)
    taken: set[Path] = field(default_factory=set)
    drawn: int = 0
    masks: int = 0


def predict_labels(
    model: Path,
    inputs: Sequence[str],
    outputs: LabelOutputs,
    device: str,
    precision: Literal["auto", "float32", "bfloat16"],
) -> None:
    """Segment images and folders of images, and write the results."""
    from patchword.core.errors import UserError
    from patchword.pipelines.image_inputs import list_images
    from patchword.pipelines.segmentation.opening import open_segmenter

    if not inputs:
        raise UserError("there are no images to segment", expected="images or folders of images")
    paths = [one for one in list_images(list(inputs), "segment") if isinstance(one, Path)]
    for folder in (outputs.masks, outputs.draw):
        if folder is not None:
            _check_folder(folder, paths)
    if outputs.masks is not None and outputs.masks == outputs.draw:
        raise UserError("--masks and --draw are the same folder", expected="two folders", got=str(outputs.draw))
    engine, results = open_segmenter(model, device, precision, str(model)), _Results()
    with progress(len(paths), "images") as bar:
        for start in range(0, len(paths), _AT_ONCE):
            some = paths[start : start + _AT_ONCE]
            for path, answer in zip(some, engine.segment(some), strict=True):
                _add(path, answer, outputs, results)
            bar(len(some))
    if len(results.errors) == len(paths):
        raise UserError(results.errors[0])
    _write(outputs, results, engine.labels)


def _check_folder(folder: Path, paths: Sequence[Path]) -> None:
    """Refuse a folder that is a file, or where a result would replace an image that is read."""
    from patchword.core.errors import UserError

    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file", expected="a folder")
    inside = next((path for path in paths if path.resolve().parent == folder.resolve()), None)
    if inside is not None:
        raise UserError(f"{folder} holds images that are read, such as {inside.name}", expected="another folder")


def _add(path: Path, answer: "SegmentationAnswer | UserError", outputs: LabelOutputs, results: _Results) -> None:
    from patchword.core.errors import UserError
    from patchword.core.files import whole_file
    from patchword.pipelines.detection.pixels import upright_image

    if isinstance(answer, UserError):
        results.errors.append(path_text(answer).splitlines()[0])
        results.records.append({"path": path_text(path), "error": results.errors[-1]})
        return
    record = {"path": path_text(path)} | answer.record()
    if outputs.masks is not None:
        target = _free(outputs.masks / f"{path.stem}.png", results.taken)
        answer.save(target)
        results.masks += 1
        record["mask"] = path_text(target)
    if outputs.draw is not None:
        suffix = ".jpg" if path.suffix.lower() in (".jpg", ".jpeg") else ".png"
        target = _free(outputs.draw / f"{path.stem}{suffix}", results.taken)
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as temporary:
            drawn = answer.draw(upright_image(path))
            drawn.save(temporary, "JPEG" if suffix == ".jpg" else "PNG", quality=_QUALITY)
        results.drawn += 1
    if outputs.polygons is not None:
        _add_regions(path, answer, results)
    results.records.append(record)
    results.rows += [(path_text(path), row["class"], row["share"]) for row in answer.rows()]
    results.cells.append((path_text(path), answer.cells()[0]["classes"]))


def _add_regions(path: Path, answer: "SegmentationAnswer", results: _Results) -> None:
    number = len(results.images) + 1
    image = {"id": number, "file_name": path_text(path), "width": answer.width, "height": answer.height}
    results.images.append(image)
    for region in answer.regions():
        x1, y1, x2, y2 = region.box
        results.regions.append(
            {
                "id": len(results.regions) + 1,
                "image_id": number,
                "category_id": region.label + 1,
                "segmentation": [region.polygon.reshape(-1).tolist()],
                "area": region.area,
                "bbox": [x1, y1, x2 - x1, y2 - y1],
                "iscrowd": 0,
            }
        )


def _free(path: Path, taken: set[Path]) -> Path:
    """Return the path, with a number if another image of this call has it."""
    number, free = 1, path
    while free in taken:
        number += 1
        free = path.with_stem(f"{path.stem}_{number}")
    taken.add(free)
    return free


def _write(outputs: LabelOutputs, results: _Results, classes: Sequence[str]) -> None:
    from patchword.core.files import write_text
    from patchword.reports.plots.numbers import counted

    out = messages(outputs.as_json)

    def note(text: str) -> None:
        out.print(text, highlight=False, markup=False)

    for error in results.errors[:_NAMED]:
        note(f"note: no prediction: {error}")
    if len(results.errors) > _NAMED:
        note(f"note: and {len(results.errors) - _NAMED:,} more without a prediction")
    answered = counted(len(results.cells), "image")
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in results.records)
    if outputs.csv:
        write_text(outputs.csv, _csv(results.rows))
        note(f"the classes of {answered} in {outputs.csv}")
    if outputs.jsonl:
        write_text(outputs.jsonl, lines)
        note(f"the classes of {answered} in {outputs.jsonl}")
    if outputs.polygons:
        categories = [{"id": label, "name": name} for label, name in enumerate(classes, 1)]
        content = {"images": results.images, "categories": categories, "annotations": results.regions}
        write_text(outputs.polygons, json.dumps(content, ensure_ascii=False) + "\n")
        note(f"{counted(len(results.regions), 'region')} in {outputs.polygons}; category_id counts the classes from 1")
    if outputs.as_json:
        typer.echo(lines, nl=False)
    if outputs.is_table:
        _print_table(results.cells)
    if outputs.masks is not None:
        note(f"{counted(results.masks, 'label map')} in {outputs.masks}; pixel values are classes from 0")
    if outputs.draw is not None:
        note(f"{counted(results.drawn, 'drawn image')} in {outputs.draw}")


def _csv(rows: Sequence[tuple[str, str, str]]) -> str:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [("path", "class", "share"), *((csv_cell(path), csv_cell(name), share) for path, name, share in rows)]
    )
    return text.getvalue()


def _print_table(cells: Sequence[tuple[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("image", "classes by their share of the pixels")
    for name, classes in cells:
        table.add_row(Text(name), Text(classes))
    console().print(table)
