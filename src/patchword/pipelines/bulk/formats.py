"""Shards as JSON lines, CSV and NumPy, and how they are joined into one file of any length."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from patchword.core.errors import UserError
from patchword.core.printable import csv_cell
from patchword.pipelines.bulk import arrow_formats
from patchword.pipelines.bulk.answered import Answered, VectorAnswer
from patchword.pipelines.bulk.arrow_files import require_arrow
from patchword.pipelines.bulk.encoded import Encoded, Part
from patchword.pipelines.bulk.records import combined, head_of
from patchword.pipelines.bulk.rows import Shard
from patchword.pipelines.bulk.work import OpenedWork
from patchword.recipes.text.inference.input import TextInput


@dataclass(frozen=True)
class Format:
    """A kind of output file.

    encode: (shard, answers, work) -> bytes. join: (parts, path, width of vectors) -> notes for the user.
    """

    encode: Callable[[Shard, Answered, OpenedWork], Encoded]
    join: Callable[[Sequence[Part], Path, int], list[str]]


def format_of(path: Path, vectors: bool) -> Format:
    """Return the format of an output file by its suffix. vectors: what it holds; else predictions"""
    known = {
        ".parquet": Format(arrow_formats.encode, arrow_formats.join_parquet),
        ".arrow": Format(arrow_formats.encode, arrow_formats.join_arrow),
        ".feather": Format(arrow_formats.encode, arrow_formats.join_arrow),
        ".jsonl": Format(_encode_json, _join_bytes),
        ".csv": Format(_encode_csv, _join_csv),
        **({".npy": Format(_encode_npy, _join_npy)} if vectors else {}),
    }
    suffix = path.suffix.lower()
    if suffix not in known:
        raise UserError(f"{path}: unknown file type", expected=f"a name in {', '.join(known)}")
    if path.is_dir():
        raise UserError(f"cannot write {path}", got="it is a folder")
    if known[suffix].encode is arrow_formats.encode:
        require_arrow(path)
    return known[suffix]


def others_of(shard: Shard) -> Iterator[Mapping[str, Any]]:
    """Yield the other cells of each row, as JSON has them."""
    if shard.columns is None:
        yield from (row.others for row in shard.rows)
        return
    yield from arrow_formats.json_rows(shard.columns)


def _encode_json(shard: Shard, answered: Answered, work: OpenedWork) -> Encoded:
    lines = (
        json.dumps(
            combined(row.place, others, head_of(row, work.asked_as), answer.record(), work.record_names),
            ensure_ascii=False,
        )
        for row, others, answer in zip(shard.rows, others_of(shard), answered.answers, strict=True)
    )
    return Encoded("".join(f"{line}\n" for line in lines).encode())


def _encode_csv(shard: Shard, answered: Answered, work: OpenedWork) -> Encoded:
    rows = []
    for number, (row, others, answer) in enumerate(
        zip(shard.rows, others_of(shard), answered.answers, strict=True), shard.start + 1
    ):
        is_numbered = isinstance(row.given, TextInput) and not work.asked_as
        first = {"number": number} if is_numbered else {}
        head = head_of(row, work.asked_as)
        rows += [first | combined(row.place, others, head, cells, work.row_names) for cells in answer.rows()]
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writerow({name: csv_cell(name) for name in columns})
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return Encoded(text.getvalue().encode(), columns)


def _encode_npy(shard: Shard, answered: Answered, work: OpenedWork) -> Encoded:
    """A row that cannot be read is NaN."""
    blank = np.full(work.width, np.nan, np.float32)
    vectors = [one.vector if isinstance(one, VectorAnswer) else blank for one in answered.answers]
    return Encoded(np.stack(vectors).astype("<f4").tobytes())


def _join_bytes(parts: Sequence[Part], path: Path, width: int) -> list[str]:
    with path.open("wb") as file:
        _append(file, parts)
    return []


def _join_npy(parts: Sequence[Part], path: Path, width: int) -> list[str]:
    with path.open("wb") as file:
        shape = (sum(part.rows for part in parts), width)
        np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": "<f4"})
        _append(file, parts)
    return []


def _join_csv(parts: Sequence[Part], path: Path, width: int) -> list[str]:
    """A part that lacks a column, such as that of errors, is written again with an empty one."""
    columns = list(dict.fromkeys(name for part in parts for name in part.columns))
    with path.open("w", encoding="utf-8", newline="") as file:
        names = csv.writer(file, lineterminator="\n")
        names.writerow([csv_cell(name) for name in columns])
        for part in parts:
            with part.path.open(encoding="utf-8", newline="") as source:
                if list(part.columns) == columns:
                    csv_header(source)
                    while text := source.read(2**20):
                        file.write(text)
                    continue
                rows = csv.DictReader(source, part.columns)
                next(rows)
                csv.DictWriter(file, columns, lineterminator="\n").writerows(rows)
    return []


def csv_header(source: IO[str]) -> None:
    """Read over the header, whose names may have line feeds."""
    reader = csv.reader(iter(source.readline, ""))
    next(reader)


def _append(file: IO[bytes], parts: Sequence[Part]) -> None:
    for part in parts:
        with part.path.open("rb") as source:
            while data := source.read(2**20):
                file.write(data)
