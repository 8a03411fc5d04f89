"""Parallel text: two files with the same number of lines, or one file with a tab per line; also as .gz."""

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchword.core.errors import UserError
from patchword.data.faults import attempt, report_fault
from patchword.data.text.formats.text_io import lines_of, read_utf8

_MOST = 2**31  # maximum unpacked size in bytes


@dataclass(frozen=True)
class Parallel:
    """Sentences and their translations."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.first)

    def take(self, numbers: Sequence[int]) -> "Parallel":
        """Return the pairs with these indices, in this order."""
        return Parallel(
            self.name, tuple(self.first[number] for number in numbers), tuple(self.second[number] for number in numbers)
        )


def read_parallel(paths: Sequence[Path]) -> Parallel:
    """Read one .tsv file, or two text files with one sentence per line."""
    match list(paths):
        case [path]:
            return _of_one(path)
        case [first, second]:
            return _of_two(first, second)
    raise UserError(
        "parallel text needs one or two files",
        expected="one file with a tab in each line, or two files separated by a comma",
        got=len(paths),
    )


def _of_one(path: Path) -> Parallel:
    sides: list[tuple[str, str]] = []
    lines = _lines(path)
    for number, line in enumerate(lines, start=1):
        if (pair := attempt(_pair, path, number, line)) is not None:
            sides.append(pair)
    if not lines:
        raise UserError(f"{path} is empty")
    return Parallel(path.stem, tuple(first for first, _ in sides), tuple(second for _, second in sides))


def _pair(path: Path, number: int, line: str) -> tuple[str, str]:
    parts = line.split("\t")
    if len(parts) != 2:
        raise UserError(
            f"{path}, line {number}: not a pair",
            expected="a sentence, a tab, and its translation",
            got=f"{len(parts) - 1} tabs",
            hint=f"cut -f1,2 {path} > pairs.tsv keeps the first two columns" if len(parts) > 2 else "",
        )
    first, second = parts[0].strip(), parts[1].strip()
    for side, text in (("first", first), ("second", second)):
        if not text:
            raise UserError(f"{path}, line {number}: the {side} sentence is empty")
    return first, second


def _of_two(first: Path, second: Path) -> Parallel:
    left, right = _lines(first), _lines(second)
    if len(left) != len(right):
        shorter, number = (first, len(left)) if len(left) < len(right) else (second, len(right))
        error = UserError(
            "parallel files must have the same number of lines",
            expected=f"{len(left):,} lines in {second}, as in {first}",
            got=f"{len(right):,}",
            hint=f"line {number + 1} has no counterpart in {shorter}",
        )
        report_fault(error)
    for path, lines in ((first, left), (second, right)):
        for number in (number for number, line in enumerate(lines, start=1) if not line.strip()):
            report_fault(
                UserError(f"{path}, line {number}: empty", hint="remove the line in both files"), "an empty line"
            )
    if not left:
        raise UserError(f"{first} is empty")
    return Parallel(first.stem, tuple(map(str.strip, left)), tuple(map(str.strip, right)))


def _lines(path: Path) -> list[str]:
    text = _unpacked(path) if path.suffix == ".gz" and path.is_file() else read_utf8(path)
    return [line.rstrip("\r\n") for line in lines_of(text)]


def _unpacked(path: Path) -> str:
    """Return the text of a .gz file; a broken or too large file is an error."""
    try:
        with gzip.open(path) as file:
            data = file.read(_MOST + 1)
        if len(data) > _MOST:
            raise UserError(f"{path} is too large to unpack", expected=f"{_MOST / 2**30:g} GB at most")
        return data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot unpack {path}", got=str(error)) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: this is not UTF-8", got=f"0x{error.object[error.start]:02x}") from None
