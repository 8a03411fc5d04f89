"""The models of the registry with their fields, as text for `help(patchword.create)`."""

from collections.abc import Iterator
from dataclasses import fields
from inspect import cleandoc
from textwrap import indent, wrap
from typing import Any, get_type_hints

from patchword.core.type_names import in_python
from patchword.models.field_meanings import FIELD_MEANINGS
from patchword.models.registry import Family, Registry, takes_mlp_ratio

_WIDTH = 100


def catalogue(registry: Registry) -> str:
    """Return all families: the names of their models, and the fields that can be overridden, with their meaning."""
    families = ["\n".join(_lines(family)) for family in registry.families]
    meanings = [f"    {name}: {meaning}" for name, meaning in FIELD_MEANINGS.items()]
    return "\n\n".join([*families, "\n".join(["What the fields mean", *meanings])])


def describe_fields(registry: Registry) -> None:
    """Add the meaning of its fields to the docstring of each config, e.g. for `help(SwinConfig)`."""
    for config in {_config(family) for family in registry.families}:
        lines = [f"{field.name}: {FIELD_MEANINGS.get(field.name, '')}" for field in fields(config)]
        config.__doc__ = "\n".join([cleandoc(config.__doc__ or ""), "", *lines])


def field_types(family: Family) -> dict[str, str]:
    """Return the fields of a family's config with their types as they are written in Python."""
    types = config_types(_config(family))
    ratio = takes_mlp_ratio(vars(next(iter(family.variants.values())).config))
    return {**types, "mlp_ratio": "float"} if ratio else types  # instead of the hidden width


def config_types(config: type[Any]) -> dict[str, str]:
    """Return the fields of a config with their types as they are written in Python."""
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
