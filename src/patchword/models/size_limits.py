"""Bounds on the sizes of a config: a number that no model can have is refused before its layers are built."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, TypeVar

from patchword.core.errors import UserError

MOST_LAYERS = 1_000  # also the sum over the stages
LARGEST = 2**24  # of every other whole number: a width, a vocabulary, the length of a text

Config = TypeVar("Config")


def checked_sizes(name: str, config: Config) -> Config:
    """Return the config of the model `name`, or raise an error that names the field that is too large."""
    for field in fields(config):  # type: ignore[arg-type]  # a dataclass
        numbers = list(_whole_numbers(getattr(config, field.name)))
        is_count = field.name in ("depth", "depths")
        most = MOST_LAYERS if is_count else LARGEST
        size = sum(numbers) if is_count else max(numbers, default=0)
        if size > most:
            expected = f"{'a sum of ' if field.name == 'depths' else ''}at most {most:,}"
            raise UserError(f"field {field.name!r} of model {name!r}", expected=expected, got=f"{size:,}")
    return config


def _whole_numbers(value: Any) -> Iterator[int]:
    if isinstance(value, tuple | list):
        for one in value:
            yield from _whole_numbers(one)
    elif isinstance(value, int):
        yield value
