"""Parts of the name tables of detectors that all libraries share."""

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import Tensor

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.tensor_files import Tensors
from patchword.models import REGISTRY
from patchword.weights.names.closest import closest
from patchword.weights.names.name_table import Layout, Row, Shapes

Their = Mapping[str, Tensor]


@dataclass(frozen=True)
class DetectionLayout(Layout):
    """The names of one library for detectors on one family of backbones; which detector it is follows from the names.

    detector: their tensors -> our name. backbone: the family of the backbones, for writing; empty: any.
    prepare: changes their tensors before they are renamed. finish: changes tensors after they are renamed to theirs.
    stated: their tensors -> fields of the config that follow from them. notes: like `unstated`, from their tensors.
    """

    detector: Callable[[Container[str]], str] = lambda names: ""
    backbone: str = ""
    prepare: Callable[[Their], Tensors] = dict
    finish: Callable[[Tensors], Tensors] = dict
    stated: Callable[[Their], dict[str, Any]] = lambda tensors: {}
    notes: Callable[[Their], dict[str, str]] = lambda tensors: {}

    def to_ours(self, tensors: Their) -> tuple[Tensors, list[str]]:
        """Return the tensors under our names, and the unknown names."""
        return super().to_ours(self.prepare(tensors))

    def to_theirs(self, tensors: Their) -> Tensors:
        """Return the tensors under their names."""
        return self.finish(super().to_theirs(tensors))

    def writes(self, family: str, card: Card) -> bool:
        """True if this library has the detector of the card, on its backbone."""
        return super().writes(family, card) and (not self.backbone or backbone_family(card) == self.backbone)

    def reading(self, tensors: Their) -> Layout:
        """Return the layout of the detector that has these tensors."""
        fields, notes = {**self.implied, **self.stated(tensors)}, self.notes(tensors)
        return replace(self, family=self.detector(tensors), implied=fields, unstated=lambda config: notes)


@dataclass(frozen=True)
class RefusedLayout(Layout):
    """The names of a detector that we would not compute as its library does. reason: what differs."""

    reason: str = ""

    def to_ours(self, tensors: Their) -> tuple[Tensors, list[str]]:
        """Raise an error."""
        raise UserError(f"these are the weights of {self.library}, which is not supported", got=self.reason)


def backbone_family(card: Card) -> str:
    """Return the family of the backbone of a detector or a segmenter."""
    return REGISTRY.find(card.config["backbone"])[0].name


def write_config(library: str, card: Card) -> dict[str, Any]:
    """Return classes, labels and input normalization, for libraries whose own configs are Python files."""
    return {
        "library": library,
        "num_classes": card.config["classes"],
        "label_names": list(card.labels),
        "pretrained_cfg": {"mean": list(card.normalization.mean), "std": list(card.normalization.std)},
    }


def tower_rows(ours: str, theirs: str, conv: str, norm: str, layer: int) -> tuple[Row, ...]:
    """Return the rows of a convolution of a tower, which is followed by a norm and ReLU, or by ReLU alone.

    conv, norm: their names inside `theirs`.
    """
    first, second, alone = (f"{ours}{number}." for number in (3 * layer, 3 * layer + 1, 2 * layer))
    return (
        Row(first + "{p}", (f"{theirs}{conv}.{{p}}",), beside=(second + "weight", f"{theirs}{norm}.weight")),
        Row(second + "{p}", (f"{theirs}{norm}.{{p}}",), beside=(first + "weight", f"{theirs}{conv}.weight")),
        Row(alone + "{p}", (f"{theirs}{conv}.{{p}}",)),
    )


def refused(library: str, reason: str, *distinct: str) -> RefusedLayout:
    """Return a layout that is recognised by its names and refused."""
    return RefusedLayout(library, "", (), distinct, lambda shapes: {}, reason=reason)


def with_prefix(table: tuple[Row, ...], ours: str, theirs: str) -> tuple[Row, ...]:
    """Return the rows of the stages of a classifier, with prefixes on both sides."""
    return tuple(
        replace(row, ours=ours + row.ours, theirs=tuple(theirs + name for name in row.theirs))
        for row in table
        if row.ours.startswith("stages.")
    )


def renamed(tensors: Their, pattern: str, new: str | Callable[[re.Match[str]], str]) -> Tensors:
    """Return the tensors, with names that start with the pattern changed."""
    start = re.compile(pattern)
    return {start.sub(new, name) if start.match(name) else name: tensor for name, tensor in tensors.items()}


def detector_sizes(shapes: Shapes, backbone: Mapping[str, Any]) -> dict[str, Any]:
    """Infer the config of a detector. backbone: its fields `backbone` and `backbone_fields`."""
    lateral = sorted(name for name in shapes if re.fullmatch(r"neck\.lateral\.\d+\.weight", name))
    if not lateral:
        return dict(backbone)
    width, last = shapes[lateral[0]][0], shapes[lateral[-1]][1]
    values = {**backbone, "width": width}
    return values | (_rcnn(shapes, width) if "stages.0.class_output.weight" in shapes else _dense(shapes, width, last))


def backbone_sizes(
    family: str, shapes: Shapes, prefix: str, sizes: Callable[[Shapes], dict[str, Any]]
) -> dict[str, Any]:
    """Infer the name of the backbone, and the fields in which it differs from that model of the registry."""
    fields = sizes({name.removeprefix(prefix): shape for name, shape in shapes.items() if name.startswith(prefix)})
    name = closest(family, fields)
    known = asdict(REGISTRY.find(name)[1].config)
    return {"backbone": name, "backbone_fields": {key: value for key, value in fields.items() if known[key] != value}}


def _rcnn(shapes: Shapes, width: int) -> dict[str, Any]:
    logits, boxes = shapes["stages.0.class_output.weight"], shapes.get("stages.0.box_output.weight", (0,))
    inner = shapes.get("stages.0.convolutions.0.0.weight") or shapes.get("masks.0.convolutions.0.weight")
    return {
        "classes": logits[0] - 1,
        "hidden": logits[1],
        "stages": _count(shapes, r"stages\.\d+\.class_output\.weight"),
        "layers": _count(shapes, r"stages\.0\.linear\.\d+\.weight"),
        "convolutions": _count(shapes, r"stages\.0\.convolutions\.\d+\.0\.weight"),
        "masks": "masks.0.output.weight" in shapes,
        "class_agnostic": boxes[0] == 4 and logits[0] > 2,
        "inner": None if inner is None or inner[0] == width else inner[0],
    }


def _dense(shapes: Shapes, width: int, last: int) -> dict[str, Any]:
    """Infer the sizes of a one-stage detector. last: channels of the coarsest map of the backbone."""
    logits, boxes = (shapes.get(f"proposer.head.{kind}_output.weight", (4,)) for kind in ("class", "box"))
    tower = [shape for name, shape in shapes.items() if re.fullmatch(r"proposer\.head\.class_tower\.\d+\.weight", name)]
    depth = sum(len(shape) == 4 for shape in tower)
    values: dict[str, Any] = {"classes": logits[0] // max(1, boxes[0] // 4), "depth": depth}
    values["groups"] = 32 if len(tower) > depth else 0
    if width != last and (extra := shapes.get("neck.downsample.0.weight")):
        values["extra_from"] = "output" if extra[1] == width else "input"
    return values


def _count(shapes: Shapes, pattern: str) -> int:
    return sum(re.fullmatch(pattern, name) is not None for name in shapes)
