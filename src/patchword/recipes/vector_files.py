"""Vectors of texts in a file: NumPy's, CSV, JSON lines or safetensors."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from patchword.core.errors import UserError
from patchword.core.files import whole_file
from patchword.recipes.embedding import Embedded
from patchword.recipes.text_input import Asked

KINDS = (".npy", ".csv", ".jsonl", ".safetensors")


def check_kind(path: Path, per_token: bool) -> None:
    """Before the work, not after it."""
    if path.suffix.lower() not in KINDS:
        raise UserError(f"{path}: the kind of file is not clear", expected=f"a name in {', '.join(KINDS)}")
    if per_token and path.suffix.lower() == ".npy":
        raise UserError("an .npy file cannot hold texts of several vectors each", expected=", ".join(KINDS[1:]))
    if path.is_dir():
        raise UserError(f"cannot write {path}", got="it is a folder")


def write_vectors(path: Path, asked: Sequence[Asked], found: Embedded) -> None:
    writers: dict[str, Callable[[Path, Sequence[Asked], Embedded], None]] = {
        ".npy": _write_npy,
        ".csv": _write_csv,
        ".jsonl": _write_lines,
        ".safetensors": _write_tensors,
    }
    with whole_file(path) as temporary:
        writers[path.suffix.lower()](temporary, asked, found)


def records(asked: Sequence[Asked], found: Embedded) -> Iterator[dict[str, Any]]:
    """A record a text, with its vector, or its tokens and theirs."""
    for number, one in enumerate(asked):
        head = {**one.place, "text": one.text}
        if not found.offsets:
            yield {**head, "vector": _plain(found.vectors[number])}
        else:
            part = slice(*found.offsets[number : number + 2])
            yield {**head, "tokens": found.tokens[part], "vectors": [_plain(row) for row in found.vectors[part]]}


def _write_npy(path: Path, asked: Sequence[Asked], found: Embedded) -> None:
    with path.open("wb") as file:
        np.save(file, found.vectors, allow_pickle=False)


def _write_tensors(path: Path, asked: Sequence[Asked], found: Embedded) -> None:
    """With one vector a token, `offsets` says where each text begins and ends."""
    offsets = {"offsets": np.array(found.offsets, np.int64)} if found.offsets else {}
    save_file({"vectors": found.vectors, **offsets}, path)


def _write_lines(path: Path, asked: Sequence[Asked], found: Embedded) -> None:
    with path.open("w", encoding="utf-8") as file:
        for record in records(asked, found):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _write_csv(path: Path, asked: Sequence[Asked], found: Embedded) -> None:
    owners = [number for number, one in enumerate(asked) for _ in range(_count(found, number))]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        numbers = [str(number) for number in range(found.vectors.shape[1])]
        writer.writerow(["text", *(["token"] if found.tokens else []), *numbers])
        for row, owner in enumerate(owners):
            token = [found.tokens[row]] if found.tokens else []
            writer.writerow([asked[owner].text, *token, *_plain(found.vectors[row])])


def _count(found: Embedded, number: int) -> int:
    return found.offsets[number + 1] - found.offsets[number] if found.offsets else 1


def _plain(row: np.ndarray) -> list[float]:
    """As few digits as tell the number apart."""
    return [float(str(value)) for value in row]
