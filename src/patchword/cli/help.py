"""The help of a verb, out of its docstring: paragraphs fill the line, examples keep lines of their own."""

import inspect
from collections.abc import Callable
from typing import Any


def help_of(verb: Callable[..., Any]) -> str:
    """Lines that are set in stay as they are; all others are joined to paragraphs, to be broken by the terminal."""
    paragraphs = (inspect.getdoc(verb) or "").split("\n\n")
    return "\n\n".join(_whole(paragraph) for paragraph in paragraphs)


def _whole(paragraph: str) -> str:
    lines = paragraph.split("\n")
    return paragraph if any(line.startswith(" ") for line in lines) else " ".join(lines)
