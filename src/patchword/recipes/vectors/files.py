"""Files of text vectors: NumPy, CSV, JSON lines or safetensors; written incrementally, of any number."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from patchword.core.errors import UserError
from patchword.core.files import whole_file
from patchword.recipes.text.inference.embedding import Embedded
from patchword.recipes.text.inference.input import TextInput

KINDS = (".npy", ".csv", ".jsonl", ".safetensors")
_HEADER = 256  # bytes reserved for the header of a safetensors file


def check_kind(path: Path, per_token: bool) -> None:
    """Check the file type before the vectors are computed."""
    if path.suffix.lower() not in KINDS:
        raise UserError(f"{path}: unknown file type", expected=f"a name in {', '.join(KINDS)}")
    if per_token and path.suffix.lower() == ".npy":
        raise UserError("an .npy file cannot hold several vectors per text", expected=", ".join(KINDS[1:]))
    if path.is_dir():
        raise UserError(f"cannot write {path}", got="it is a folder")


def write_vectors(path: Path, asked: Sequence[TextInput], parts: Iterable[Embedded]) -> tuple[int, int]:
    """Write the vectors of all inputs. Return their number and their width. parts: the vectors of all inputs"""
    writers: dict[str, Callable[[Path, Sequence[TextInput], Iterable[Embedded]], None]] = {
        ".npy": _write_npy,
        ".csv": _write_csv,
        ".jsonl": _write_lines,
        ".safetensors": _write_tensors,
    }
    shape = [0, 0]

    def counted() -> Iterator[Embedded]:
        for part in parts:
            shape[:] = shape[0] + len(part.vectors), part.vectors.shape[1]
            yield part

    with whole_file(path) as temporary:
        writers[path.suffix.lower()](temporary, asked, counted())
    return shape[0], shape[1]


def records(asked: Sequence[TextInput], found: Embedded) -> Iterator[dict[str, Any]]:
    """Yield one record per text, with its vector, or with its tokens and their vectors."""
    for number, one in enumerate(asked):
        head, rows = {**one.place, "text": one.text}, found.rows(number)
        if not found.offsets:
            yield {**head, "vector": _plain(found.vectors[number])}
        else:
            yield {**head, "tokens": found.tokens[rows], "vectors": [_plain(row) for row in found.vectors[rows]]}


def dealt(asked: Sequence[TextInput], parts: Iterable[Embedded]) -> Iterator[tuple[Sequence[TextInput], Embedded]]:
    """Yield each part of the vectors with its texts."""
    begin = 0
    for part in parts:
        yield asked[begin : begin + len(part)], part
        begin += len(part)


def _write_npy(path: Path, asked: Sequence[TextInput], parts: Iterable[Embedded]) -> None:
    with path.open("wb") as file:
        for number, part in enumerate(parts):
            if not number:
                shape = {"shape": (len(asked), part.vectors.shape[1]), "fortran_order": False, "descr": "<f4"}
                np.lib.format.write_array_header_1_0(file, shape)
            file.write(_bytes(part.vectors, "<f4"))


def _write_tensors(path: Path, asked: Sequence[TextInput], parts: Iterable[Embedded]) -> None:
    """Write a safetensors file; with one vector per token, `offsets` holds where each text begins and ends.

    The number of tokens is known only at the end, so space for the header and the offsets is reserved at the start.
    """
    counts, width, per_token = [0], 0, False
    with path.open("wb") as file:
        for number, part in enumerate(parts):
            width, per_token = part.vectors.shape[1], bool(part.offsets)
            if not number:
                file.seek(8 + _HEADER + (8 * (len(asked) + 1) if per_token else 0))
            counts += np.diff(part.offsets).tolist() if per_token else [1] * len(part)
            file.write(_bytes(part.vectors, "<f4"))
        file.seek(0)
        _write_front(file, np.cumsum(counts), width, per_token)


def _write_front(file: IO[bytes], offsets: np.ndarray, width: int, per_token: bool) -> None:
    begin, rows = 8 * len(offsets) if per_token else 0, int(offsets[-1])
    header: dict[str, Any] = {"offsets": {"dtype": "I64", "shape": [len(offsets)], "data_offsets": [0, begin]}}
    vectors = {"dtype": "F32", "shape": [rows, width], "data_offsets": [begin, begin + 4 * rows * width]}
    front = json.dumps({**(header if per_token else {}), "vectors": vectors}).encode().ljust(_HEADER)
    file.write(_HEADER.to_bytes(8, "little") + front)
    if per_token:
        file.write(_bytes(offsets, "<i8"))


def _write_lines(path: Path, asked: Sequence[TextInput], parts: Iterable[Embedded]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for texts, part in dealt(asked, parts):
            for record in records(texts, part):
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _write_csv(path: Path, asked: Sequence[TextInput], parts: Iterable[Embedded]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, (texts, part) in enumerate(dealt(asked, parts)):
            if not number:
                names = [str(place) for place in range(part.vectors.shape[1])]
                writer.writerow(["text", *(["token"] if part.offsets else []), *names])
            for text, one in enumerate(texts):
                rows = part.rows(text)
                tokens = [[token] for token in part.tokens[rows]] if part.offsets else [[]]
                for token, vector in zip(tokens, part.vectors[rows], strict=True):
                    writer.writerow([one.text, *token, *_plain(vector)])


def _bytes(values: np.ndarray, kind: str) -> bytes:
    return np.ascontiguousarray(values, kind).tobytes()


def _plain(row: np.ndarray) -> list[float]:
    """Format a number with as few digits as identify it."""
    return [float(str(value)) for value in row]
