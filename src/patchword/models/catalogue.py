"""The models of the registry with their fields, as text for `help(patchword.create)`."""

from collections.abc import Iterator
from dataclasses import fields
from textwrap import indent, wrap
from typing import Any, get_type_hints

from patchword.core.type_names import in_python
from patchword.models.registry import Family, Registry

_WIDTH = 100


def catalogue(registry: Registry) -> str:
    """Return all families: the names of their models, and the fields that can be overridden."""
    return "\n\n".join("\n".join(_lines(family)) for family in registry.families)


def field_types(family: Family) -> dict[str, str]:
    """Return the fields of a family's config with their types as they are written in Python."""
    config = _config(family)
    hints = get_type_hints(config)
    return {field.name: in_python(hints[field.name]) for field in fields(config)}


def _config(family: Family) -> type[Any]:
    return type(next(iter(family.variants.values())).config)


def _lines(family: Family) -> Iterator[str]:
    typed = ", ".join(f"{name}: {kind}" for name, kind in field_types(family).items())
    config = _config(family)
    yield f"{family.title} ({family.paper}), {config.__module__}.{config.__name__}"
    yield _indented("models: " + ", ".join(family.names()))
    yield _indented("fields: " + typed)


def _indented(text: str) -> str:
    lines = wrap(text, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return indent("\n".join(lines), "    ")
