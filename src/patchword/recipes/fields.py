"""What a field of a recipe takes, in words, and how what is typed for one is read."""

import re
from typing import Any

import yaml
from pydantic import BaseModel

from patchword.core.errors import UserError
from patchword.core.type_names import in_words

DEVICE = r"^(auto|(cpu|cuda|mps|xpu)(:\d+)?)$"
DEVICES = "auto, cpu, cuda (cuda:1 is the second) or mps"
_SPECIAL = {"activation_checkpointing": "true, false, or stages such as [0, 1]", "device": DEVICES}


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
    return in_words(kind, field.metadata)


def model_value(text: str) -> Any:
    """For fields of a model, which may be pairs; a recipe's own fields are read by their types."""
    try:
        return read_value(text)
    except yaml.YAMLError:
        return text


def read_value(text: str) -> Any:
    """YAML's reading, except that 1e-1 is a number and not a word."""
    value = yaml.safe_load(text)
    try:
        return float(value) if isinstance(value, str) and value[:1].isdigit() else value
    except ValueError:
        return value
