"""A checkpoint's manifest: what its files should be, and whether they are.

Written last, so that a folder with a manifest is a whole one. It has the size and the sha256 of every file, the version
of the format, and its own digest: one bit that changes anywhere in the folder is noticed.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from patchword import __version__

MANIFEST = "manifest.json"
_FORMAT = 1


class Digest:
    """Of a file that is being written: its bytes are counted and digested as they pass."""

    def __init__(self) -> None:
        self.bytes, self.sha = 0, hashlib.sha256()

    def update(self, piece: bytes | memoryview) -> None:
        self.bytes += len(piece)
        self.sha.update(piece)

    def entry(self) -> dict[str, Any]:
        return {"bytes": self.bytes, "sha256": self.sha.hexdigest()}


def manifest_of(files: Mapping[str, Digest]) -> str:
    """The text of manifest.json."""
    body = {
        "format": _FORMAT,
        "patchword": __version__,
        "files": {name: digest.entry() for name, digest in files.items()},
    }
    return _rendered({**body, "digest": _digest_of(body)})


def fault(folder: Path, names: Iterable[str]) -> str:
    """What is wrong with a checkpoint, or nothing. names: of the files it must have"""
    try:
        files = entries((folder / MANIFEST).read_bytes())
        for name in {*names, *files}:
            size = (folder / name).stat().st_size
            if size != files[name].get("bytes", size):
                return f"{name} has changed since it was written: {size:,} bytes, not {files[name]['bytes']:,}"
            if files[name]["sha256"] != _read_digest(folder / name):
                return f"{name} has changed since it was written"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its manifest cannot be used ({_told(error)})"
    return ""


def entries(content: bytes) -> dict[str, dict[str, Any]]:
    """What the manifest says of each file; a manifest that is not as it was written is refused."""
    told = json.loads(content)
    if "files" not in told:  # format 0: a digest a file, nothing else
        return {name: {"sha256": sha} for name, sha in told.items()}
    if _rendered(told).encode() != content or told.pop("digest") != _digest_of(told):
        raise ValueError("it has changed since it was written")
    if told["format"] > _FORMAT:
        raise ValueError(f"it is of a later version, patchword {told['patchword']}")
    return dict(told["files"])


def _rendered(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _digest_of(body: Any) -> str:
    return hashlib.sha256(_rendered(body).encode()).hexdigest()


def _read_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _told(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{Path(str(error.filename)).name} is missing"
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
