"""The labels of a table: class names and ids, multiple labels per row, or numbers for regression."""

import json
import math
import re
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from patchword.core.errors import UserError, nearest
from patchword.data.faults import attempt, report_fault
from patchword.data.text.formats.tables import Table

UNSEEN = "a label that is not one of the known labels"


def label_names(values: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct labels in natural order: numbers by size, x2 before x10."""
    names = set(values)
    if all(_number(name) is not None for name in names):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names, key=lambda name: (_natural(name), name)))


def label_ids(table: Table, names: Sequence[str], role: str = "label") -> Tensor:
    """Return (rows,) int64, the index of each label in `names`; an unknown label is an error."""
    number = {name: index for index, name in enumerate(names)}
    cells = table.columns[role]
    for row, label in enumerate(cells):
        if label not in number:
            report_fault(_unseen(table, row, role, label, names), UNSEEN)
    return torch.tensor([number.get(label, 0) for label in cells], dtype=torch.int64)


def split_labels(table: Table, role: str = "label", separator: str = "|") -> list[tuple[str, ...]]:
    """Return the labels of each row, from cells like `a|b|c` or a JSON list; an empty cell has none."""
    cells = enumerate(table.columns[role])
    return [attempt(_split, cell, separator, table.where(row, role)) or () for row, cell in cells]


def label_flags(table: Table, names: Sequence[str], role: str = "label", separator: str = "|") -> Tensor:
    """Return (rows, labels) bool, True for the labels of each row."""
    number = {name: index for index, name in enumerate(names)}
    flags = torch.zeros(len(table), len(names), dtype=torch.bool)
    for row, labels in enumerate(split_labels(table, role, separator)):
        for label in labels:
            if label not in number:
                report_fault(_unseen(table, row, role, label, names), UNSEEN)
            flags[row, number.get(label, 0)] = True
    return flags


def numbers(table: Table, role: str = "label") -> Tensor:
    """Return (rows,) float64, the targets of a regression."""
    found = [_number(cell) for cell in table.columns[role]]
    for row, value in enumerate(found):
        if value is None:
            cell = table.columns[role][row]
            comma = _number(cell.replace(",", ".", 1)) is not None
            hint = "write a decimal point, not a comma" if comma else ""
            error = UserError(table.where(row, role), expected="a finite number", got=repr(cell), hint=hint)
            report_fault(error, "a label that is not a finite number")
    return torch.tensor([0.0 if value is None else value for value in found], dtype=torch.float64)


def _split(cell: str, separator: str, where: str) -> tuple[str, ...]:
    parts = cell.split(separator) if cell else []
    if cell.startswith("[") and cell.endswith("]"):
        try:
            listed = json.loads(cell)
        except (ValueError, RecursionError):
            raise UserError(f"{where}: not a JSON list of labels", expected='["a", "b"]', got=cell[:80]) from None
        parts = [part if isinstance(part, str) else json.dumps(part) for part in listed]
    labels = [part.strip() for part in parts]
    if "" in labels:
        raise UserError(f"{where}: an empty label", got=repr(cell[:80]))
    return tuple(dict.fromkeys(labels))


def _unseen(table: Table, row: int, role: str, label: str, names: Sequence[str]) -> UserError:
    where = table.where(row, role)
    return UserError(f"{where}: the label {label[:80]!r} is not one of the known labels", hint=nearest(label, names))


def _number(text: str) -> float | None:
    try:
        value = float(text) if "_" not in text else math.nan  # Python would parse 1_000 as a number
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"([0-9]{1,99})", name)
    return [(0, int(part), "") if part[0] in "0123456789" else (1, 0, part.casefold()) for part in parts if part]
