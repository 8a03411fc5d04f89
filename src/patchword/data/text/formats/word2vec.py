"""Word vectors in word2vec's text format: a first line with the number of words and the width, then one word per line.

GloVe's files, which have no first line, and word2vec's binary files (.bin) are read, too.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from patchword.core.errors import UserError
from patchword.core.files import whole_file

_FORM = "a first line `words width`, then one word and its numbers per line"


def write_vectors(path: Path, words: Sequence[str], vectors: np.ndarray) -> None:
    """Write word vectors with nine digits, which are enough to read back every float32 exactly."""
    for word in words:
        if not word or any(letter.isspace() for letter in word):
            raise UserError("cannot write a word vector", expected="a word without spaces", got=repr(word))
    form = " ".join(["%.9g"] * vectors.shape[1])
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n")
        file.writelines(f"{word} {form % tuple(row)}\n" for word, row in zip(words, vectors, strict=True))


def read_vectors(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the words and their vectors, (words, width) float32; of duplicate words, the first is kept."""
    try:
        with path.open("rb") as file:
            first = file.readline()
        head = _head(first)
        rows = _binary(path, head, len(first)) if path.suffix.lower() == ".bin" else _lines(path, head)
        found: dict[str, np.ndarray] = {}
        for word, vector in rows:
            found.setdefault(word, vector)
    except OSError as error:
        raise UserError(f"cannot read {path}", got=error.strerror) from None
    if not found:
        raise UserError(f"{path} has no word vectors", expected=_FORM)
    return tuple(found), np.stack(list(found.values()))


def _head(line: bytes) -> tuple[int, int] | None:
    """Parse a first line: the number of words and the width, or None."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 19 for field in fields):
        return None
    return int(fields[0]), int(fields[1])


def _lines(path: Path, head: tuple[int, int] | None) -> Iterator[tuple[str, np.ndarray]]:
    width, count = head[1] if head else 0, 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if (number == 1 and head) or not raw.strip():
                continue
            word, vector = _line(f"{path}, line {number}", raw)
            width = width or len(vector)
            if len(vector) != width:
                raise UserError(
                    f"{path}, line {number}: wrong width", expected=f"{width} numbers", got=f"{len(vector)}"
                )
            count += 1
            yield word, vector
    if head and count != head[0]:
        raise UserError(f"{path} is not whole", expected=f"{head[0]:,} words, as its first line says", got=f"{count:,}")


def _line(place: str, raw: bytes) -> tuple[str, np.ndarray]:
    try:
        word, *numbers = raw.decode("utf-8").rstrip().split(" ")
        vector = np.array(list(map(float, numbers)), np.float32)
    except UnicodeDecodeError as error:
        raise UserError(f"{place}: not UTF-8", got=f"byte {raw[error.start]:#04x}") from None
    except ValueError as error:
        raise UserError(f"{place}: not a word vector", expected=_FORM, got=str(error)) from None
    if not word or not numbers:
        raise UserError(f"{place}: not a word vector", expected=_FORM, got=repr(raw[:40].decode("utf-8", "replace")))
    if not np.isfinite(vector).all():
        raise UserError(f"{place}: not a word vector", expected="finite numbers", got="nan or infinity")
    return word, vector


def _binary(path: Path, head: tuple[int, int] | None, begin: int) -> Iterator[tuple[str, np.ndarray]]:
    """Read the binary format: each word, a space, its float32 numbers, and from most programs a line feed."""
    if head is None:
        raise UserError(f"{path} is not a binary file of word vectors", expected="a first line `words width`")
    count, width = head
    data = np.memmap(path, np.uint8, "r")
    for number in range(count):
        start = bytes(data[begin : begin + 1000])
        name, space, _ = start.partition(b" ")
        end = begin + len(name) + 1 + 4 * width
        if not space or end > len(data):
            raise UserError(f"{path} is not whole", expected=f"{count:,} words, as its first line says", got=number)
        word, vector = name.lstrip(b"\n").decode("utf-8", "replace"), data[end - 4 * width : end].tobytes()
        if not np.isfinite(numbers := np.frombuffer(vector, "<f4")).all():
            raise UserError(f"{path}, word {number + 1}: not finite numbers", got=repr(word[:80]))
        yield word, numbers
        begin = end
