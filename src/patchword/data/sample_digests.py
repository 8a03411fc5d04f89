"""Digests of the contents of samples, by which a data set is recognised although only its names are the same.

A file is digested as it is stored, so that the result is the same on every machine and with every decoder, and one
read at disk speed is enough; arrays are digested as they are in their file.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.image.archives import opened

_AT_ONCE = 256


@dataclass(frozen=True)
class Contents:
    """The samples of a data split. keys: what identifies each one, e.g. its file below the folder of the data set.

    read: index -> the bytes of a sample. name: index -> its name in a message.
    """

    keys: Sequence[str]
    read: Callable[[int], bytes]
    name: Callable[[int], str]

    @classmethod
    def of_files(cls, keys: Sequence[str], paths: Sequence[Path]) -> "Contents":
        """Return the contents of files or entries of archives."""

        def read(index: int) -> bytes:
            with opened(paths[index]) as file:
                return file.read()

        return cls(keys, read, lambda index: str(paths[index]))

    @classmethod
    def of_named_files(cls, names: Sequence[str]) -> "Contents | None":
        """Return the contents of files by their paths; None for samples that are generated."""
        paths = [Path(name) for name in names]
        if not paths or not paths[0].is_file():
            return None
        root = os.path.commonpath([path.parent for path in paths])
        return cls.of_files([os.path.relpath(path, root) for path in paths], paths)

    @classmethod
    def of_array(cls, values: Tensor, name: str) -> "Contents":
        """Return the contents of a tensor with one sample per row."""
        keys = [str(index) for index in range(len(values))]
        return cls(keys, lambda index: values[index].numpy().tobytes(), lambda index: f"image {index} of {name}")


@dataclass(frozen=True)
class Difference:
    """What is not as it was. changed, added: the names of samples. missing: their number. samples: that there were."""

    samples: int
    changed: Sequence[str]
    added: Sequence[str]
    missing: int

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.missing)

    def __str__(self) -> str:
        found = {"have other contents": len(self.changed), "are missing": self.missing, "are new": len(self.added)}
        return ", ".join(f"{count:,} {what}" for what, count in found.items() if count)


def digest_samples(contents: Contents, stop: Callable[[], bool] = lambda: False, threads: int = 1) -> Tensor | None:
    """Return (samples, 2) int64: hashes of the key and of the content of each sample; None once `stop` is true."""
    found: list[list[int]] = []
    with ThreadPoolExecutor(max_workers=threads) as pool:
        for start in range(0, len(contents.keys), _AT_ONCE):
            if stop():
                return None
            some = range(start, min(start + _AT_ONCE, len(contents.keys)))
            found += ([_hash(contents.keys[index].encode("utf-8", "surrogateescape")), 0] for index in some)
            for index, content in zip(some, pool.map(lambda index: _content(contents, index), some), strict=True):
                found[index][1] = content
    return torch.tensor(found, dtype=torch.int64).reshape(-1, 2)


def compare_samples(before: Tensor, contents: Contents) -> Difference:
    """Compare samples with their digests of an earlier time."""
    now = digest_samples(contents, threads=os.cpu_count() or 1)
    assert now is not None, "nothing stops it"
    old: dict[int, int] = dict(before.tolist())
    new: list[list[int]] = now.tolist()
    changed = _names(contents, (index for index, (key, value) in enumerate(new) if old.get(key, value) != value))
    added = _names(contents, (index for index, (key, _) in enumerate(new) if key not in old))
    return Difference(len(before), changed, added, len(old.keys() - {key for key, _ in new}))


def _names(contents: Contents, indices: Iterable[int]) -> Sequence[str]:
    return [contents.name(index) for index in indices]


def _content(contents: Contents, index: int) -> int:
    try:
        return _hash(contents.read(index))
    except (OSError, UserError):  # a sample that cannot be read is skipped, or reported, by the reader of the data
        return 0


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big", signed=True)
