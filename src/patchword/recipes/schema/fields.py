"""Describes the valid values of recipe fields, and parses typed values."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from patchword.core.errors import UserError
from patchword.core.type_names import in_words
from patchword.weights.hub.name import is_hub_name

DEVICE = r"^(auto|(cpu|cuda|mps|xpu)(:\d+)?)$"
DEVICES = "auto, cpu, cuda (cuda:1 is the second) or mps"
_SPECIAL = {
    "activation_checkpointing": "true, false, or stages such as [0, 1]",
    "device": DEVICES,
    "batch_size": "a whole number above 0, or auto",
}


def check_device(name: str) -> str:
    """Return a valid device name; whether the device exists is checked on use."""
    if not re.match(DEVICE, name):
        raise UserError(f"cannot use device {name!r}", expected=DEVICES)
    return name


def expected_of(model: type[BaseModel], path: str) -> str:
    """Return the valid values of a field in words. path: of the field, with dots for inner models"""
    first, _, rest = path.partition(".")
    if first in _SPECIAL or first not in model.model_fields:
        return _SPECIAL.get(first, "another value")
    field = model.model_fields[first]
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return expected_of(kind, rest) if rest else f"fields: {', '.join(kind.model_fields)}"
    return in_words(kind, field.metadata)


def model_value(text: str) -> Any:
    """Parse the value of a model's config field; a recipe's own fields are parsed by their types."""
    try:
        return read_value(text)
    except yaml.YAMLError:
        return text


def read_value(text: str) -> Any:
    """Parse a value as YAML, except that 1e-1 is a number."""
    value = yaml.safe_load(text)
    try:
        return float(value) if isinstance(value, str) and value[:1].isdigit() else value
    except ValueError:
        return value


def flat_fields(fields: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the fields with their values; the fields of an inner dictionary have a dot in their names."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from flat_fields(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def field_value(field: FieldInfo | None, value: object) -> object:
    """Convert a Python value to that of a recipe field: paths and runs to text, and numbers if the field is a text.

    field: None for an inner or unknown field.
    """
    if isinstance(value, (list, tuple)):
        return [field_value(None, one) for one in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if field is not None and isinstance(value, (int, float)):
        if isinstance(value, bool):
            return str(value).lower() if "true" in get_args(field.annotation) else value
        return str(value) if field.annotation is str else value
    return value


def refuse_hub_name(name: str, expected: str, hint: str) -> None:
    """Raise an error for hf:OWNER/REPO in a recipe whose models are not on the hub. hint: why not"""
    if is_hub_name(name):
        raise UserError("this recipe takes no models of the hub", expected=expected, got=name, hint=hint)


def whole_path(path: str) -> str:
    """Return the absolute path of an existing file or folder; return any other text, such as a name, unchanged."""
    return str(Path(path).absolute()) if path and not is_hub_name(path) and Path(path).exists() else path


def listed(names: str) -> list[str]:
    """Split a comma-separated list of files; an existing file whose name contains a comma is one entry."""
    return [names] if Path(names).exists() else [name.strip() for name in names.split(",")]


def whole_paths(names: str) -> str:
    """Return a comma-separated list of files with the absolute path of each that exists."""
    return ",".join(map(whole_path, listed(names)))
