"""Name tables: the tensor names of another library for one of our families."""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.tensor_files import Tensors


@dataclass(frozen=True)
class Row:
    """Maps one of our tensors to one of theirs, or to several of theirs concatenated along `dim`.

    In names, {i} is an index, {n} the same index counted from one, and {p} is "weight", "bias" or a statistic of a
    batch norm.
    proportions: relative sizes of the concatenated parts; equal by default.
    beside: (our name, their name) of another tensor; the row applies only if that tensor exists.
    """

    ours: str
    theirs: tuple[str, ...]
    dim: int = 0
    proportions: tuple[int, ...] = ()
    beside: tuple[str, str] | None = None

    def split(self, tensor: Tensor) -> Sequence[Tensor]:
        proportions = self.proportions or (1,) * len(self.theirs)
        unit = tensor.shape[self.dim] // sum(proportions) if len(proportions) > 1 else 0
        return tensor.split([part * unit for part in proportions], self.dim) if len(proportions) > 1 else [tensor]


Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Layout:
    """The names of one library for one family, and how that library writes its config.json."""

    library: str
    family: str
    table: tuple[Row, ...]
    distinct: tuple[str, ...]  # names that together identify this layout
    sizes: Callable[[Shapes], dict[str, Any]]  # infers config fields from the shapes of tensors under our names
    implied: Mapping[str, Any] = field(default_factory=dict)  # config fields that follow from the names alone
    read_config: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda _: {}
    write_config: Callable[[Card], dict[str, Any]] = lambda _: {}
    dropped: tuple[str, ...] = ()  # their tensors that are not learned, such as index tables
    needs: Mapping[str, Any] = field(
        default_factory=dict
    )  # config fields for which this library supports only one value
    also_for: tuple[str, ...] = ()  # other families that can be written under these names
    processor: str = "ViTImageProcessor"  # image processor class in a Hugging Face folder
    file: str = "model.safetensors"  # where the tensors are written
    unstated: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda config: {}  # our field -> why it is a choice
    check: Callable[[Card], None] = lambda card: None  # raises an error for a card that this library computes otherwise
    created: tuple[str, ...] = ()  # our tensors besides the head that these files do not have; newly initialized
    model_types: tuple[str, ...] = ()  # allowed `model_type` values of config.json; empty: not checked

    def fits(self, names: Container[str], model_type: str | None = None) -> bool:
        """True if the names are this layout's, and the model type, if given, too."""
        return all(name in names for name in self.distinct) and (
            not self.model_types or model_type in (None, *self.model_types)
        )

    def for_config(self, config: Mapping[str, Any]) -> "Layout":
        """Return this layout for files with this config, which may say what the tensors are."""
        return self

    def reading(self, tensors: Mapping[str, Tensor]) -> "Layout":
        """Return this layout with fields that are inferred from the shapes under their names."""
        return self

    def writing(self, card: Card) -> "Layout":
        """Return this layout with the fields of the card that their shapes depend on."""
        return self

    def writes(self, family: str, card: Card) -> bool:
        """True if models of this family can be written under these names."""
        return family in (self.family, *self.also_for)

    def to_ours(self, tensors: Mapping[str, Tensor]) -> tuple[Tensors, list[str]]:
        """Return the tensors under our names, and the unknown names; the first row that matches a name is used."""
        ours: Tensors = {}
        left = {name for name in tensors if not any(_pattern(gone).fullmatch(name) for gone in self.dropped)}
        for row in self.table:
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
        for row in self.table:
            match = _pattern(row.ours).fullmatch(name)
            if match and (not row.beside or _fill(row.beside[0], match) in names):
                return row, match
        raise UserError(f"{self.library} has no name for {name}", hint='use layout="patchword"')


def encoder_alone(layout: Layout, root: str, created: tuple[str, ...] = ()) -> Layout:
    """Return the layout of a file of the encoder without its head, whose names lack the prefix `root`.

    The encoders of two families may have the same names; the model type of config.json, "swin" of the root "swin.",
    tells them apart.
    """

    def bare(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name.removeprefix(root) for name in names)

    inner = [row for row in layout.table if all(name.startswith(root) for name in row.theirs)]
    table = tuple(
        replace(row, theirs=bare(row.theirs), beside=row.beside and (row.beside[0], row.beside[1].removeprefix(root)))
        for row in inner
    )
    return replace(
        layout,
        table=table,
        distinct=bare(layout.distinct),
        dropped=bare(layout.dropped),
        created=created,
        model_types=(root.removesuffix("."),),
    )


def rows(*pairs: tuple[str, str | tuple[str, ...]]) -> tuple[Row, ...]:
    """Make rows of (our name, their name or several of theirs that are concatenated along the outputs)."""
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
