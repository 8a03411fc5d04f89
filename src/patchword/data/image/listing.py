"""List the images of a folder, an archive or a manifest. Faulty rows are reported and skipped."""

import csv
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from patchword.core.errors import UserError
from patchword.data.faults import attempt, report_fault, warn
from patchword.data.image.archives import entries
from patchword.data.image.sources import IMAGE_SUFFIXES, ListedSource
from patchword.data.image.splits import Split
from patchword.data.skipping import FaultySamples

NOT_AN_IMAGE = "a file in a class folder that is ignored: its suffix is not an image's"
MERGED = "a class whose folders of splits are merged and split anew"
NOT_A_FILE = "a folder, a pipe or a device with the suffix of an image"
_PARTS: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
}
Row = tuple[Path, str, Split | None]  # path, label, part if one is given


def folder_source(folder: Path) -> ListedSource:
    """Read one subfolder per class; or such subfolders inside `train`, `test` and optionally `validation`."""
    _refuse_system_folder(folder)
    if not any(sub.is_dir() for sub in (folder / "train").glob("*")):  # else `train` is a class, e.g. of vehicles
        _warn_merged(folder)
        return ListedSource(folder.name, tuple((path, label, None) for path, label in _classes(folder)))
    parts = sorted(sub for sub in folder.iterdir() if sub.is_dir() and sub.name in _PARTS)
    _refuse_twice(folder, [sub.name for sub in parts])
    rows = tuple((path, label, _PARTS[sub.name]) for sub in parts for path, label in _classes(sub))
    return ListedSource(folder.name, rows)


def _warn_merged(folder: Path) -> None:
    """Warn of classes with folders `train` and `test` inside, whose images are read as one."""
    for sub in sorted(sub for sub in folder.iterdir() if sub.is_dir()):
        parts = sorted(one.name for one in sub.iterdir() if one.name in _PARTS and one.is_dir())
        if len(parts) > 1:
            warn(
                MERGED,
                f"{sub}: {', '.join(parts)}; folders that split a data set are above the classes: train/{sub.name}",
            )


def unlabelled_source(folder: Path) -> ListedSource:
    """Read all images in a folder and below it; the labels are not used."""
    return ListedSource(folder.name, tuple((path, "image", None) for path in _image_files(folder)), min_classes=1)


def has_loose_images(folder: Path) -> bool:
    """Return True for a folder that has images outside of sub-folders, and no sub-folders `train` or `test`."""
    below = [path for path in folder.iterdir() if not path.name.startswith(".")]
    has_parts = any(path.is_dir() and path.name in _PARTS for path in below)
    return not has_parts and any(path.suffix.lower() in IMAGE_SUFFIXES and path.is_file() for path in below)


def _refuse_system_folder(folder: Path) -> None:
    """Raise an error for the root of the disk and for folders in which the system shows itself, also behind a link."""
    place = folder.resolve()
    if place == Path(place.anchor) or place.parts[1] in ("proc", "sys") or place == Path("/dev"):
        leads = f"{folder}, which leads to {place}," if place != folder else str(folder)
        raise UserError(f"{leads} is a folder of the system", expected="a folder of images")


def _refuse_twice(where: Path, parts: list[str]) -> None:
    if len({_PARTS[name] for name in parts}) < len(parts):
        raise UserError(f"{where} has two folders of one split", expected="train, validation, test", got=parts)


def _classes(folder: Path) -> Iterator[tuple[Path, str]]:
    below = sorted(sub for sub in folder.iterdir() if not sub.name.startswith((".", "__MACOSX")))
    classes = [sub for sub in below if sub.is_dir()]
    for sub in below:
        if sub.is_symlink() and not sub.exists():
            report_fault(UserError(f"{sub} is a broken link", hint="remove it"), "a broken link")
    if not classes:
        raise UserError(f"{folder} has no class folders", expected="one subfolder of images per class")
    for sub in classes:
        for path in attempt(_image_files, sub) or ():
            yield path, sub.name


def _image_files(folder: Path) -> list[Path]:
    """List the images of one class; linked folders are not followed, since they may form a cycle."""
    if any("\ud800" <= letter <= "\udfff" for letter in folder.name):  # how Python represents bytes that are not UTF-8
        raise UserError(f"the name of the class folder {str(folder)!r} is not UTF-8", hint="rename it")
    _refuse_system_folder(folder)
    found = sorted(path for path in folder.rglob("*") if not path.name.startswith("."))
    named = [path for path in found if path.suffix.lower() in IMAGE_SUFFIXES]
    files = [path for path in named if path.is_file() or not path.exists()]  # a broken link is reported when it is read
    for path in found:
        if path.is_symlink() and path.is_dir():
            warn("a linked folder inside a class, which is not followed", str(path))
        elif path.suffix.lower() not in IMAGE_SUFFIXES and not path.is_dir():
            warn(NOT_AN_IMAGE, str(path))
    for path in sorted(set(named) - set(files)):  # opening a pipe would block
        report_fault(
            UserError(f"{path} has the suffix of an image but is not a file", hint="remove or rename it"), NOT_A_FILE
        )
    if not files:
        kinds = " ".join(sorted(IMAGE_SUFFIXES))
        raise UserError(f"the class folder {folder} is empty", expected=f"images ({kinds})", hint="remove or fill it")
    return files


def archive_source(path: Path) -> ListedSource:
    """Read a .zip or .tar of a folder of classes, with or without the top folder."""
    names = [name for name in entries(path) if not any(part.startswith((".", "__MACOSX")) for part in name.parts)]
    images = [name for name in names if name.suffix.lower() in IMAGE_SUFFIXES]
    for name in names:
        if name.suffix.lower() not in IMAGE_SUFFIXES:
            warn(NOT_AN_IMAGE, str(path / name))
    tops = {name.parts[0] for name in images}
    depth = 1 if len(tops) == 1 and all(len(name.parts) > 2 for name in images) and not tops & _PARTS.keys() else 0
    has_parts = any(name.parts[depth] == "train" and len(name.parts) > depth + 2 for name in images)
    rows = [row for name in sorted(images) if (row := attempt(_archived, path, name, depth, has_parts)) is not None]
    if has_parts:
        _refuse_twice(path, sorted({name.parts[depth] for name in images if name.parts[depth] in _PARTS}))
    if not rows:
        raise UserError(f"{path} has no class folders", expected="one folder of images per class")
    return ListedSource(path.stem, tuple(row for row in rows if row[2] is not None or not has_parts))


def _archived(archive: Path, name: PurePosixPath, depth: int, has_parts: bool) -> Row:
    inner = name.parts[depth:]
    part = _PARTS.get(inner[0]) if has_parts else None
    if len(inner) < (3 if part else 2):
        raise UserError(f"{archive}, entry {str(name)!r}: it is not in a class folder", expected="CLASS/IMAGE")
    return archive / name, inner[1] if part else inner[0], part


def manifest_source(path: Path) -> ListedSource:
    """Read CSV or JSON lines with the fields `path`, `label`, optionally `split`; paths are relative to the file."""
    rows, labels, faulty = list[Row](), list[str](), FaultySamples(str(path), "rows", training=True)
    for line, read in _records(path):
        record = attempt(_json_record, path, line, read) if isinstance(read, str) else read
        labels.append("" if record is None or record.get("label") is None else str(record["label"]))
        if record is not None and (error := _missing(path, line, record)) is not None:
            faulty.add(error, label=labels[-1])
        elif record is not None and (row := attempt(_row, path, line, record)) is not None:
            rows.append(row)
    if not labels:
        raise UserError(f"{path} lists no images")
    faulty.finish(labels)
    return ListedSource(path.stem, tuple(rows))


def _missing(path: Path, line: int, record: dict[str, object]) -> UserError | None:
    """Return an error for a row without path, label or image file."""
    if missing := [field for field in ("path", "label") if record.get(field) in (None, "")]:
        return UserError(f"{path}, line {line}: no {missing[0]}", expected="path and label", got=list(record))
    if str(record["label"]).strip().casefold() == "nan":
        return UserError(f"{path}, line {line}: the label is NaN", hint="fill it, or remove the row")
    image = path.parent / str(record["path"])
    if "\0" in str(image) or not image.is_file():
        return UserError(f"{path}, line {line}: there is no image {image}".replace("\0", "\\0"))
    return None


def _row(path: Path, line: int, record: dict[str, object]) -> Row:
    image = path.parent / str(record["path"])
    if not Path(os.path.normpath(image.absolute())).is_relative_to(path.parent.absolute()):
        warn("an image outside the manifest's folder", f"{path}, line {line}: {image}")
    split = str(record.get("split") or "train").strip().lower()
    if split not in _PARTS:
        raise UserError(f"{path}, line {line}: split", expected="train, validation or test", got=record["split"])
    return image, str(record["label"]), _PARTS[split] if record.get("split") else None


def _records(path: Path) -> Iterable[tuple[int, dict[str, object] | str]]:
    """Yield each record with its line number; JSON lines are not parsed yet."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if path.suffix.lower() == ".csv":
                reader = csv.DictReader(file)
                names = list(reader.fieldnames or ())
                if twice := [name for name in names if names.count(name) > 1]:
                    raise UserError(f"{path}, line 1: two columns have the name {twice[0]!r}", hint="rename one")
                yield from ((reader.line_num, dict(record)) for record in reader)
            else:
                yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"cannot read {path}", expected="UTF-8 CSV or JSON lines", got=str(error)) from None


def _json_record(path: Path, number: int, line: str) -> dict[str, object]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}, line {number}: not JSON", got=str(error)) from None
    if not isinstance(record, dict):
        raise UserError(
            f"{path}, line {number}: not a record", expected='{"path": ..., "label": ...}', got=line.strip()
        )
    return record
