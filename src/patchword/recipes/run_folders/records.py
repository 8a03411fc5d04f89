"""The small JSON files of a run: objects, whose fields are checked when they are read."""

from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.core.seal.checking import check_file

DATA, MACHINE, EVALUATION = "data.json", "machine.json", "evaluation.json"

_NUMBER, _TEXT, _OBJECT = "a number", "a text", "an object"
_PER_CLASS = "a number, or one per class"
_KINDS: dict[str, type | tuple[type, ...]] = {
    _NUMBER: (int, float),
    _TEXT: str,
    _OBJECT: dict,
    _PER_CLASS: (int, float, dict),
}
_FIELDS = {  # those that are read; the others are only shown
    DATA: {"name": _TEXT, "samples": _NUMBER, "class_counts": _OBJECT, "skipped": _OBJECT},
    EVALUATION: {"metric": _TEXT, "part": _TEXT, "examples": _NUMBER, "accuracy": _PER_CLASS, "loss": _NUMBER},
}


def read_record(folder: Path, name: str) -> dict[str, Any]:
    """Return the content of a small file of a run; empty if there is none."""
    path = folder / name
    if not path.is_file():
        return {}
    check_file(path)
    found = read_json(path)
    if not isinstance(found, dict):
        raise _damaged(path, "an object", type(found).__name__)
    for field, kind in _FIELDS.get(name, {}).items():
        value = found.get(field)
        if value is not None and (not isinstance(value, _KINDS[kind]) or isinstance(value, bool)):
            raise _damaged(path, f"{field}: {kind}", repr(value)[:80])
    return found


def _damaged(path: Path, expected: str, got: str) -> UserError:
    return UserError(f"{path} is damaged", expected=expected, got=got, hint="restore it from a copy of the run")
