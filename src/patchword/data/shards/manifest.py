"""The manifest of a data set in shards: shards.json lists the shards, their sizes and the folders to search.

It is written last. To move shards between disks, add their folders to the list `folders` in it.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from patchword.core.errors import RecoverableError, UserError
from patchword.core.files import read_json, write_json
from patchword.data.faults import report_fault
from patchword.data.image.splits import Split
from patchword.data.progress import Progress, no_progress

MANIFEST, PLAN = "shards.json", "shards.plan.json"
Kind = Literal["images", "texts"]  # the names in shards.json
_OLD_KINDS = {"pictures": "images"}  # names in shards.json of earlier versions
_FORMAT = "patchword shards 1"
_NAME = re.compile(r"shard-\d{5,}\.[a-z]+")


@dataclass(frozen=True)
class Shard:
    """One shard. file: its name, in one of the folders. index: sha256 of its index file, in the manifest's folder."""

    file: str
    samples: int
    bytes: int
    sha256: str
    part: Split | None = None
    index: str = ""


@dataclass(frozen=True)
class Manifest:
    """The list of shards. key: hash of the contents. folders: of the shards, relative to the manifest's folder."""

    kind: Kind
    name: str
    key: str
    classes: tuple[str, ...]
    folders: tuple[str, ...]
    shards: tuple[Shard, ...]

    @property
    def samples(self) -> int:
        return sum(shard.samples for shard in self.shards)


def is_sharded(folder: Path) -> bool:
    """True if a folder has a data set in shards; unfinished shards are an error."""
    if (folder / MANIFEST).is_file():
        return True
    if (folder / PLAN).is_file():
        raise UserError(
            f"the shards in {folder} are not finished", hint="run the same `patchword data shard` command again"
        )
    return False


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_json(folder / MANIFEST, {"format": _FORMAT, **asdict(manifest)})


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    found = read_json(path)
    try:
        if found.pop("format") != _FORMAT:
            raise ValueError(f"not {_FORMAT!r}")
        shards = tuple(_shard(fields) for fields in found.pop("shards"))
        classes, folders = (tuple(map(str, found.pop(name))) for name in ("classes", "folders"))
        kind = found.pop("kind")
        return Manifest(_OLD_KINDS.get(kind, kind), classes=classes, folders=folders, shards=shards, **found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"cannot read {path}", expected="what `patchword data shard` writes", got=str(error)) from None


def _shard(fields: Any) -> Shard:
    shard = Shard(**fields)
    whole = all(type(number) is int and number > 0 for number in (shard.samples, shard.bytes))
    if not whole or not _NAME.fullmatch(shard.file) or shard.part not in (None, "train", "validation", "test"):
        raise ValueError(f"not a shard: {fields}"[:200])
    return shard


@dataclass(frozen=True)
class ShardLocations:
    """Finds the files of a manifest's shards."""

    folder: Path
    manifest: Manifest

    def path(self, number: int) -> Path:
        return self.find(self.manifest.shards[number])

    def find(self, shard: Shard) -> Path:
        """Return the file of a shard after checking its size; a missing or wrong file is a recoverable error."""
        found = [path for path in self.candidates(shard.file) if path.is_file()]
        for path in found:
            if path.stat().st_size == shard.bytes:
                return path
        if found:
            what, got = f"the shard {found[0]} has a wrong size", found[0].stat().st_size
            raise RecoverableError(what, expected=f"{shard.bytes:,} bytes", got=f"{got:,}", hint="copy it again")
        searched = " or ".join(str(path.parent) for path in self.candidates(shard.file))
        hint = f"restore it, or add its folder to `folders` in {self.folder / MANIFEST}"
        raise RecoverableError(f"the shard {shard.file} is missing", expected=f"it in {searched}", hint=hint)

    def check(self) -> list[Path]:
        """Quick check: return the files that exist and have the right size; report the others."""
        found = []
        for shard in self.manifest.shards:
            try:
                found.append(self.find(shard))
            except RecoverableError as error:
                report_fault(error, "a missing or truncated shard")
        return found

    def verify(self, paths: Iterable[Path], progress: Progress | None = None) -> None:
        """Full check: read every byte and compare the digests; report changed shards."""
        done, report, shards = 0, progress or no_progress, {shard.file: shard for shard in self.manifest.shards}
        for path in paths:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != shards[path.name].sha256:
                expected = f"sha256 {shards[path.name].sha256}"
                what = f"the shard {path} has changed since it was written"
                report_fault(
                    UserError(what, expected=expected, got=found, hint="copy it again"), "a shard that has changed"
                )
            done += shards[path.name].samples
            report(done, self.manifest.samples)

    def candidates(self, file: str) -> list[Path]:
        return [self.folder / folder / file for folder in self.manifest.folders]


def locate_shards(folder: Path, kind: Kind, otherwise: str) -> ShardLocations:
    """Read the manifest of a folder. otherwise: hint for shards of the other kind."""
    manifest = read_manifest(folder)
    if manifest.kind != kind:
        raise UserError(f"{folder} has shards of {manifest.kind}", expected=kind, hint=otherwise)
    return ShardLocations(folder, manifest)


def text_shards(folder: Path) -> list[Path]:
    """Return the files of a set of text shards; missing ones are reported."""
    return locate_shards(folder, "texts", f"patchword train image-folder-vit data={folder}").check()


def verify_texts(folders: Iterable[Path], files: Iterable[Path]) -> None:
    """Verify the digests of the files that are shards of these folders."""
    for folder in folders:
        if folder.is_dir() and is_sharded(folder):
            places = ShardLocations(folder, read_manifest(folder))
            inside = {path for shard in places.manifest.shards for path in places.candidates(shard.file)}
            places.verify(path for path in files if path in inside)
