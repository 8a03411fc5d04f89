"""Write samples to shards. Each shard is written atomically; a kill loses at most one.

A shard is complete if its record exists, a small JSON file that is written after it. The same call resumes after the
complete shards; when all are complete, the manifest is written and the records are removed.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from safetensors.numpy import save

from patchword.core.errors import UserError
from patchword.core.files import read_json, whole_file, write_json
from patchword.data.faults import collect_faults
from patchword.data.image.splits import Split
from patchword.data.progress import Progress, no_progress
from patchword.data.shards.folders import Folders, HashingFile, lock_folders, planned_key, write_plan
from patchword.data.shards.manifest import Kind, Manifest, Shard, read_manifest, write_manifest
from patchword.data.text.corpus.documents import digest


@dataclass(frozen=True)
class Sample:
    """A sample. done: progress after it is written, in the unit of `Contents.total`."""

    part: Split | None
    content: Any
    done: int


class ShardWriter(Protocol):
    """Writes the samples of one shard."""

    def add(self, content: Any) -> None: ...

    def close(self) -> dict[str, Any]:
        """Return the arrays of the shard's index; empty if it needs none."""
        ...


class ShardContents(Protocol):
    """The data to write. total: in the unit of progress. bytes: estimated size. suffix: of the shard files."""

    @property
    def kind(self) -> Kind: ...
    @property
    def suffix(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def total(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def key(self) -> str: ...
    def check(self, progress: Progress) -> None:
        """Report all faults, before anything is written."""
        ...

    def samples(self) -> Iterator[Sample]: ...
    def open_writer(self, file: HashingFile) -> ShardWriter: ...


def write_shards(
    contents: ShardContents,
    folders: Folders,
    size: int,
    checking: Progress = no_progress,
    writing: Progress = no_progress,
) -> Manifest:
    """Write the shards, or resume; return their manifest."""
    key = f"{contents.key()}-{size}"
    with lock_folders(folders, key) as finished:
        if finished:
            return read_manifest(folders.first)
        if planned_key(folders) != key:
            with collect_faults():
                contents.check(checking)
            folders.check_disk_space(contents.bytes)
            write_plan(folders, key)
        shards = list(_shards(contents, folders, size, writing))
        manifest = Manifest(contents.kind, contents.name, key, contents.classes, folders.names(), tuple(shards))
        write_manifest(folders.first, manifest)
        for shard in shards:
            _record(folders, shard.file).unlink(missing_ok=True)
        return manifest


def index_file(folder: Path, file: str) -> Path:
    return (folder / file).with_suffix(".index")


def _record(folders: Folders, file: str) -> Path:
    return (folders.first / file).with_suffix(".json")


def _shards(contents: ShardContents, folders: Folders, size: int, progress: Progress) -> Iterator[Shard]:
    samples = _Lookahead(contents.samples(), lambda done: progress(done, contents.total))
    number = 0
    while samples.next is not None:
        file = f"shard-{number:05d}.{contents.suffix}"
        shard = _finished_shard(folders, file)
        if shard is None:
            shard = _write_shard(contents, folders, file, size, samples)
            write_json(_record(folders, file), asdict(shard))
        else:
            samples.skip(shard.samples)
        yield shard
        number += 1


def _finished_shard(folders: Folders, file: str) -> Shard | None:
    """Return a shard of the same plan that is already complete, else None."""
    if not _record(folders, file).is_file():
        return None
    try:
        shard = Shard(**read_json(_record(folders, file)))
    except (UserError, TypeError):
        return None
    index = index_file(folders.first, file)
    whole = not shard.index or (index.is_file() and digest(index) == shard.index)
    return shard if whole and folders.find(file, shard.bytes) else None


def _write_shard(contents: ShardContents, folders: Folders, file: str, size: int, samples: "_Lookahead") -> Shard:
    """Write a shard of samples of one split until it reaches its size."""
    first = samples.next
    assert first is not None, "there is a sample to begin with"
    count, path = 0, folders.with_room(size) / file
    with whole_file(path) as temporary, temporary.open("wb") as raw:
        hashed = HashingFile(raw)
        writer = contents.open_writer(hashed)
        while (sample := samples.next) is not None and sample.part == first.part and hashed.size < size:
            writer.add(sample.content)
            samples.skip(1)
            count += 1
        arrays = writer.close()
    index = ""
    if arrays:
        with whole_file(index_file(folders.first, file)) as temporary:
            temporary.write_bytes(save(arrays))
        index = digest(index_file(folders.first, file))
    return Shard(file, count, hashed.size, hashed.sha256, first.part, index)


class _Lookahead:
    """An iterator over samples with access to the next one."""

    def __init__(self, samples: Iterator[Sample], progress: Callable[[int], None]) -> None:
        self._samples, self._progress = samples, progress
        self.next = next(samples, None)

    def skip(self, count: int) -> None:
        for _ in range(count):
            if self.next is not None:
                self._progress(self.next.done)
            self.next = next(self._samples, None)
