"""Name tables: how another library calls the tensors of one of our families."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from patchword.core.card import Card
from patchword.core.tensors import Tensors


@dataclass(frozen=True)
class Row:
    """One tensor here is one tensor there, or several there joined along `dim`.

    In names, {i} stands for a number and {p} for "weight" or "bias".
    """

    ours: str
    theirs: tuple[str, ...]
    dim: int = 0


@dataclass(frozen=True)
class Layout:
    """The names of one library for one family, and how that library writes its config.json."""

    library: str
    family: str
    rows: tuple[Row, ...]
    distinct: str  # a name that only this layout has
    sizes: Callable[[Mapping[str, tuple[int, ...]]], dict[str, Any]]  # config fields that the shapes tell
    told: Mapping[str, Any]  # config fields that the names alone tell
    read_config: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _: {}
    write_config: Callable[[Card], dict[str, Any]] = lambda _: {}

    def to_ours(self, tensors: Mapping[str, Tensor]) -> tuple[Tensors, list[str]]:
        """The tensors under our names, and the names this table does not know."""
        ours: Tensors = {}
        left = set(tensors)
        for row in self.rows:
            first = _pattern(row.theirs[0])
            for name in tensors:
                if match := first.fullmatch(name):
                    names = [_fill(theirs, match) for theirs in row.theirs]
                    if all(part in tensors for part in names):
                        ours[_fill(row.ours, match)] = _join([tensors[part] for part in names], row.dim)
                        left -= set(names)
        return ours, sorted(left)

    def to_theirs(self, tensors: Mapping[str, Tensor]) -> Tensors:
        theirs: Tensors = {}
        for name, tensor in tensors.items():
            row, match = next((row, match) for row in self.rows if (match := _pattern(row.ours).fullmatch(name)))
            parts = tensor.chunk(len(row.theirs), dim=row.dim)
            for their_name, part in zip(row.theirs, parts, strict=True):
                theirs[_fill(their_name, match)] = part.contiguous()
        return theirs


def _pattern(template: str) -> re.Pattern[str]:
    escaped = re.escape(template).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\{p\}", r"(?P<p>weight|bias)")
    return re.compile(escaped)


def _fill(template: str, match: re.Match[str]) -> str:
    for key, value in match.groupdict().items():
        template = template.replace("{" + key + "}", value)
    return template


def _join(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)
