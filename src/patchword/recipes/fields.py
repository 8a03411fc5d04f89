"""What a field of a recipe takes, in words."""

import re
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel

from patchword.core.errors import UserError

DEVICE = r"^(auto|(cpu|cuda|mps|xpu)(:\d+)?)$"
DEVICES = "auto, cpu, cuda (cuda:1 is the second) or mps"
_SPECIAL = {"recompute": "true, false, or stages such as [0, 1]", "device": DEVICES}
_KINDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_BOUNDS: dict[type, Callable[[Any], str]] = {
    annotated_types.Gt: lambda bound: f"greater than {bound.gt:,}",
    annotated_types.Ge: lambda bound: f"{bound.ge:,} or more",
    annotated_types.Lt: lambda bound: f"less than {bound.lt:,}",
    annotated_types.Le: lambda bound: f"{bound.le:,} at most",
    annotated_types.MinLen: lambda bound: "not empty",
}


def check_device(name: str) -> str:
    """A name that a device can have; whether it is here is found out where it is used."""
    if not re.match(DEVICE, name):
        raise UserError(f"cannot use device {name!r}", expected=DEVICES)
    return name


def expected_of(model: type[BaseModel], path: str) -> str:
    """path: of the field, which may be that of an inner model"""
    first, _, rest = path.partition(".")
    if first in _SPECIAL or first not in model.model_fields:
        return _SPECIAL.get(first, "another value")
    field = model.model_fields[first]
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return expected_of(kind, rest) if rest else f"fields: {', '.join(kind.model_fields)}"
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    bounds = [_BOUNDS[type(bound)](bound) for bound in field.metadata if type(bound) in _BOUNDS]
    return ", ".join([_KINDS.get(kind, "another value"), " and ".join(bounds)]).removesuffix(", ")
