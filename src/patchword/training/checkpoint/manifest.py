"""The manifest of a checkpoint: size and sha256 of its files, and the check against them.

It is written last, so that a folder with a manifest is complete. It also has the version of the format and its own
digest: one changed bit anywhere in the folder is detected.
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
    """Size and sha256 of a file, computed while it is written."""

    def __init__(self) -> None:
        self.bytes, self.sha = 0, hashlib.sha256()

    def update(self, chunk: bytes | memoryview) -> None:
        self.bytes += len(chunk)
        self.sha.update(chunk)

    def entry(self) -> dict[str, Any]:
        return {"bytes": self.bytes, "sha256": self.sha.hexdigest()}


def manifest_of(files: Mapping[str, Digest], origin: Mapping[str, str] | None = None) -> str:
    """Return the text of manifest.json. origin: what the checkpoint says of its run"""
    body = {
        "format": _FORMAT,
        "patchword": __version__,
        "files": {name: digest.entry() for name, digest in files.items()},
        **({"origin": dict(origin)} if origin else {}),
    }
    return _rendered({**body, "digest": _digest_of(body)})


def find_fault(folder: Path, names: Iterable[str]) -> str:
    """Return what is wrong with a checkpoint, or an empty string. names: of the files it must have"""
    try:
        files = entries((folder / MANIFEST).read_bytes())
        for name in {*names, *files}:
            size = (folder / name).stat().st_size
            if size != files[name].get("bytes", size):
                return f"{name} has changed since it was written: {size:,} bytes, not {files[name]['bytes']:,}"
            if files[name]["sha256"] != _read_digest(folder / name):
                return f"{name} has changed since it was written"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its manifest cannot be used ({_describe(error)})"
    return ""


def entries(content: bytes) -> dict[str, dict[str, Any]]:
    """Return the manifest's entry per file; raise ValueError if the manifest itself has changed."""
    manifest = json.loads(content)
    if "files" not in manifest:  # format 0: one digest per file, nothing else
        return {name: {"sha256": sha} for name, sha in manifest.items()}
    if _rendered(manifest).encode() != content or manifest.pop("digest") != _digest_of(manifest):
        raise ValueError("it has changed since it was written")
    if manifest["format"] > _FORMAT:
        raise ValueError(f"it was written by a later version, patchword {manifest['patchword']}")
    return dict(manifest["files"])


def _rendered(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _digest_of(body: Any) -> str:
    return hashlib.sha256(_rendered(body).encode()).hexdigest()


def _read_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{Path(str(error.filename)).name} is missing"
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
