"""Descriptions of field types: in words, for error messages about recipes and model configs, and as Python code."""

from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types

_KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): "none",
}
_BOUNDS: dict[type, Callable[[Any], str]] = {
    annotated_types.Gt: lambda bound: f"greater than {bound.gt:,}",
    annotated_types.Ge: lambda bound: f"{bound.ge:,} or more",
    annotated_types.Lt: lambda bound: f"less than {bound.lt:,}",
    annotated_types.Le: lambda bound: f"{bound.le:,} at most",
    annotated_types.MultipleOf: lambda bound: f"a multiple of {bound.multiple_of:,}",
    annotated_types.MinLen: lambda bound: "not empty",
}


_SYMBOLS: dict[type, Callable[[Any], str]] = {
    annotated_types.Gt: lambda bound: f">{bound.gt:,}",
    annotated_types.Ge: lambda bound: f">={bound.ge:,}",
    annotated_types.Lt: lambda bound: f"<{bound.lt:,}",
    annotated_types.Le: lambda bound: f"<={bound.le:,}",
    annotated_types.MultipleOf: lambda bound: f"a multiple of {bound.multiple_of:,}",
}
_LARGEST = 2**62  # bounds above this are those of the integer type


def in_symbols(kind: Any, bounds: Iterable[Any] = ()) -> str:
    """Return the choices or the limits of an annotated type, e.g. "soft | hard" or ">0, <=1"; "" if it has none."""
    if get_origin(kind) is Literal:
        choices = [str(choice) or "''" for choice in get_args(kind)]
        return " | ".join(choices) if len(choices) > 1 else ""
    limits = [bound for bound in bounds if type(bound) in _SYMBOLS and getattr(bound, "lt", 0) < _LARGEST]
    return ", ".join(_SYMBOLS[type(bound)](bound) for bound in limits)


def in_words(kind: Any, bounds: Iterable[Any] = ()) -> str:
    """Describe an annotated type. bounds: further constraints; one without a description is left out."""
    inner = get_args(kind)
    match get_origin(kind):
        case origin if origin is Annotated:
            return in_words(inner[0], [part for note in inner[1:] for part in getattr(note, "metadata", [note])])
        case origin if origin is Literal:
            return " or ".join(map(str, inner))
        case origin if origin in (Union, UnionType):
            return ", or ".join(map(in_words, inner))
        case origin if origin is tuple:
            several = "values" if inner[-1] is Ellipsis else f"{len(inner)} values"
            return f"{several}, each {in_words(inner[0])}"
    limits = " and ".join(_BOUNDS[type(bound)](bound) for bound in bounds if type(bound) in _BOUNDS)
    return ", ".join([_KINDS.get(kind, "another value"), limits]).removesuffix(", ")


def in_python(kind: Any) -> str:
    """Return a type as it is written in Python, e.g. "int | tuple[int, int]"."""
    inner = get_args(kind)
    match get_origin(kind):
        case origin if origin is Literal:
            return f"Literal[{', '.join(map(repr, inner))}]"
        case origin if origin in (Union, UnionType):
            return " | ".join(map(in_python, inner))
        case origin if origin is tuple:
            return f"tuple[{', '.join('...' if part is Ellipsis else in_python(part) for part in inner)}]"
        case origin if origin is Mapping:
            return f"Mapping[{', '.join(map(in_python, inner))}]"
    return "None" if kind is NoneType else str(kind.__name__)
