"""Tell COCO's and LabelMe's JSON files apart by their first keys, without parsing files of hundreds of megabytes."""

import re
from pathlib import Path
from typing import Literal

from patchword.core.errors import UserError
from patchword.core.files import read_json

JsonKind = Literal["coco", "labelme", ""]
_HEAD = 65_536  # bytes
_KEY = re.compile(r'(?<!\\)"(\w+)"\s*:')


def json_kind(path: Path) -> JsonKind:
    """Return the kind of a JSON file; empty for one without annotations of objects."""
    if path.suffix.lower() != ".json" or path.name.startswith(".") or not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8-sig", errors="replace").lstrip()
    except OSError:
        return ""
    keys = set(_KEY.findall(head)) if head.startswith("{") else set()
    if keys & {"shapes", "imageData", "imagePath"}:
        return "labelme"
    return "coco" if keys & {"images", "annotations"} and not keys & {"data", "paragraphs"} else ""


def json_files(folder: Path, kind: JsonKind) -> list[Path]:
    """Return the JSON files of a kind in a folder, sorted."""
    return sorted(path for path in folder.glob("*.json") if json_kind(path) == kind)


def read_record(path: Path) -> dict[str, object]:
    """Read a JSON file that holds one object."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise UserError(f"cannot read {path}", expected="a JSON object", got=type(found).__name__)
    return found
