"""The manifest of a set in shards: shards.json says what there is, how large it is, and in which folders to look.

It is written last. Shards may be moved between disks: then their folders are added to the list `folders` in it.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from patchword.core.errors import RecoverableError, UserError
from patchword.core.files import read_json, write_json
from patchword.data.faults import tell
from patchword.data.image.splits import Split
from patchword.data.progress import Progress, nothing

MANIFEST, PLAN = "shards.json", "shards.plan.json"
Kind = Literal["pictures", "texts"]
_FORMAT = "patchword shards 1"
_NAME = re.compile(r"shard-\d{5,}\.[a-z]+")


@dataclass(frozen=True)
class Shard:
    """file: its name, in one of the folders. index: the sha256 of its index, which lies beside the manifest."""

    file: str
    samples: int
    bytes: int
    sha256: str
    part: Split | None = None
    index: str = ""


@dataclass(frozen=True)
class Manifest:
    """key: what the shards were made of. folders: where shards are looked for, from the manifest's own on."""

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
    """Whether a folder holds a set in shards; one that is half-made is an error that says so."""
    if (folder / MANIFEST).is_file():
        return True
    if (folder / PLAN).is_file():
        raise UserError(f"the shards in {folder} are not finished", hint="repeat the `patchword data shard` of them")
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
        return Manifest(classes=classes, folders=folders, shards=shards, **found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"cannot read {path}", expected="what `patchword data shard` writes", got=str(error)) from None


def _shard(fields: Any) -> Shard:
    shard = Shard(**fields)
    whole = all(type(number) is int and number > 0 for number in (shard.samples, shard.bytes))
    if not whole or not _NAME.fullmatch(shard.file) or shard.part not in (None, "train", "validation", "test"):
        raise ValueError(f"no shard: {fields}"[:200])
    return shard


@dataclass(frozen=True)
class ShardLocations:
    """Where the shards of a manifest are."""

    folder: Path
    manifest: Manifest

    def path(self, number: int) -> Path:
        return self.find(self.manifest.shards[number])

    def find(self, shard: Shard) -> Path:
        """The shard's file, whole by its size; what is wrong is an error that can be mended."""
        found = [path for path in self.candidates(shard.file) if path.is_file()]
        for path in found:
            if path.stat().st_size == shard.bytes:
                return path
        if found:
            what, got = f"the shard {found[0]} is cut short, or another one", found[0].stat().st_size
            raise RecoverableError(what, expected=f"{shard.bytes:,} bytes", got=f"{got:,}", hint="copy it anew")
        looked = " or ".join(str(path.parent) for path in self.candidates(shard.file))
        hint = f"bring it back, or add its folder to `folders` in {self.folder / MANIFEST}"
        raise RecoverableError(f"the shard {shard.file} is missing", expected=f"it in {looked}", hint=hint)

    def check(self) -> list[Path]:
        """The cheap check: the files of those that are there and have their sizes. The others are told."""
        found = []
        for shard in self.manifest.shards:
            try:
                found.append(self.find(shard))
            except RecoverableError as error:
                tell(error, "a shard that is missing or cut short")
        return found

    def verify(self, paths: Iterable[Path], progress: Progress | None = None) -> None:
        """The full check: every byte of these is read, and the digests compared. What is changed is told."""
        done, told, shards = 0, progress or nothing, {shard.file: shard for shard in self.manifest.shards}
        for path in paths:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != shards[path.name].sha256:
                expected = f"sha256 {shards[path.name].sha256}"
                what = f"the shard {path} is not as it was written"
                tell(UserError(what, expected=expected, got=found, hint="copy it anew"), "a shard that has changed")
            done += shards[path.name].samples
            told(done, self.manifest.samples)

    def candidates(self, file: str) -> list[Path]:
        return [self.folder / folder / file for folder in self.manifest.folders]


def locate_shards(folder: Path, kind: Kind, otherwise: str) -> ShardLocations:
    """otherwise: what shards of the other kind are good for"""
    manifest = read_manifest(folder)
    if manifest.kind != kind:
        raise UserError(f"{folder} holds shards of {manifest.kind}", expected=kind, hint=otherwise)
    return ShardLocations(folder, manifest)


def text_shards(folder: Path) -> list[Path]:
    """The files of a set of texts, wherever they are; what is missing is told."""
    return locate_shards(folder, "texts", f"patchword train image-folder-vit data={folder}").check()


def verify_texts(folders: Iterable[Path], files: Iterable[Path]) -> None:
    """Of those of the files that are shards of these folders, the digests."""
    for folder in folders:
        if folder.is_dir() and is_sharded(folder):
            places = ShardLocations(folder, read_manifest(folder))
            inside = {path for shard in places.manifest.shards for path in places.candidates(shard.file)}
            places.verify(path for path in files if path in inside)
