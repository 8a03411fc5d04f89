"""Find duplicate images: in training and test data they make the test result too good; in two classes one is wrong."""

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path

from patchword.data.faults import is_collecting, warn
from patchword.data.image.archives import opened


def warn_duplicates(images: Sequence[tuple[Path, str, str]]) -> set[Path]:
    """Warn of duplicates, and return those in two splits. images: path, class and split of each.

    Only files of equal size are read, which is cheap.
    """
    if not is_collecting():
        return set()
    named: set[Path] = set()
    by_length = _same_content((_length(path), row) for row, (path, _, _) in enumerate(images))
    for rows in by_length:
        for same in _same_content((_digest(images[row][0]), row) for row in rows):
            first, *others = (images[row] for row in same)
            for path, label, part in others:
                if part != first[2]:
                    what = f"{path} ({part}) is {first[0]} ({first[2]})"
                    warn("an image in both training and test data", what)
                    named |= {path, first[0]}
                elif label != first[1]:
                    warn("an image in two classes", f"{path} is {first[0]}")
    return named


def _same_content(keyed: Iterable[tuple[Hashable, int]]) -> Iterator[list[int]]:
    """Yield the groups of rows with equal keys; None is not a key."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for key, row in keyed:
        groups[key].append(row)
    return (rows for key, rows in groups.items() if key is not None and len(rows) > 1)


def _length(path: Path) -> int | None:
    try:
        with opened(path) as file:
            return file.seek(0, 2) or None
    except OSError:
        return None


def _digest(path: Path) -> bytes | None:
    try:
        with opened(path) as file:
            return hashlib.sha256(file.read()).digest()
    except OSError:
        return None
