"""Name tables: how another library calls the tensors of one of our families."""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.tensor_files import Tensors


@dataclass(frozen=True)
class Row:
    """One tensor here is one tensor there, or several there joined along `dim`.

    In names, {i} stands for a number, {n} for the same counted from one, and {p} for "weight", "bias" or a statistic
    of a batch norm.
    shares: the relative sizes of the joined parts; equal if not given.
    beside: our name and theirs of another tensor; the row holds only where that one is there, too.
    """

    ours: str
    theirs: tuple[str, ...]
    dim: int = 0
    shares: tuple[int, ...] = ()
    beside: tuple[str, str] | None = None

    def split(self, tensor: Tensor) -> Sequence[Tensor]:
        shares = self.shares or (1,) * len(self.theirs)
        unit = tensor.shape[self.dim] // sum(shares) if len(shares) > 1 else 0
        return tensor.split([share * unit for share in shares], self.dim) if len(shares) > 1 else [tensor]


Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Layout:
    """The names of one library for one family, and how that library writes its config.json."""

    library: str
    family: str
    rows: tuple[Row, ...]
    distinct: tuple[str, ...]  # names that together only this layout has
    sizes: Callable[[Shapes], dict[str, Any]]  # config fields that the shapes of tensors under our names tell
    told: Mapping[str, Any] = field(default_factory=dict)  # config fields that the names alone tell
    read_config: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _: {}
    write_config: Callable[[Card], dict[str, Any]] = lambda _: {}
    dropped: tuple[str, ...] = ()  # tensors of theirs that hold nothing learned, such as tables of indices
    needs: Mapping[str, Any] = field(default_factory=dict)  # config fields that this library has only one value for
    also_for: tuple[str, ...] = ()  # other families that can be written under these names
    processor: str = "ViTImageProcessor"  # of the pictures, in a folder for Hugging Face
    file: str = "model.safetensors"  # where the tensors are written
    model_types: tuple[str, ...] = ()  # what a config.json may call the family; with none, it is not asked

    def fits(self, names: Container[str], model_type: str | None = None) -> bool:
        """The names are this layout's, and so is what the file calls the family, if it does."""
        return all(name in names for name in self.distinct) and (
            not self.model_types or model_type in (None, *self.model_types)
        )

    def reading(self, tensors: Mapping[str, Tensor]) -> "Layout":
        """This layout, knowing what only the shapes under their names tell."""
        return self

    def writing(self, card: Card) -> "Layout":
        """This layout, knowing what their shapes need to be told."""
        return self

    def to_ours(self, tensors: Mapping[str, Tensor]) -> tuple[Tensors, list[str]]:
        """The tensors under our names, and the names this table does not know; the first fitting row has a name."""
        ours: Tensors = {}
        left = {name for name in tensors if not any(_pattern(gone).fullmatch(name) for gone in self.dropped)}
        for row in self.rows:
            first = _pattern(row.theirs[0])
            for match in [match for name in tensors if (match := first.fullmatch(name))]:
                names = [_fill(theirs, match) for theirs in row.theirs]
                if left.issuperset(names) and (not row.beside or _fill(row.beside[1], match) in tensors):
                    ours[_fill(row.ours, match)] = _join([tensors[part] for part in names], row.dim)
                    left -= set(names)
        return ours, sorted(left)

    def to_theirs(self, tensors: Mapping[str, Tensor]) -> Tensors:
        theirs: Tensors = {}
        for name, tensor in tensors.items():
            row, match = self._row_of(name, tensors)
            for their_name, part in zip(row.theirs, row.split(tensor), strict=True):
                theirs[_fill(their_name, match)] = part.contiguous()
        return theirs

    def _row_of(self, name: str, names: Container[str]) -> tuple[Row, re.Match[str]]:
        for row in self.rows:
            match = _pattern(row.ours).fullmatch(name)
            if match and (not row.beside or _fill(row.beside[0], match) in names):
                return row, match
        raise UserError(f"{self.library} has no name for {name}", hint='use layout="patchword"')


def rows(*pairs: tuple[str, str | tuple[str, ...]]) -> tuple[Row, ...]:
    """Our names, each beside one or several of theirs that are joined along the outputs."""
    return tuple(Row(ours, (theirs,) if isinstance(theirs, str) else theirs) for ours, theirs in pairs)


def identity(*names: str) -> tuple[Row, ...]:
    return tuple(Row(name, (name,)) for name in names)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    escaped = (
        re.escape(template)
        .replace(r"\{i\}", r"(?P<i>\d+)")
        .replace(r"\{n\}", r"(?P<n>\d+)")
        .replace(r"\{p\}", r"(?P<p>weight|bias|running_mean|running_var|num_batches_tracked)")
    )
    return re.compile(escaped)


def _fill(template: str, match: re.Match[str]) -> str:
    found = match.groupdict()
    if "i" in found:
        found["n"] = str(int(found["i"]) + 1)
    elif "n" in found:
        found["i"] = str(int(found["n"]) - 1)
    for key, value in found.items():
        template = template.replace("{" + key + "}", value)
    return template


def _join(parts: list[Tensor], dim: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)
