"""Builds the help text of a verb from its docstring: paragraphs are reflowed, examples keep their lines."""

import inspect
from collections.abc import Callable
from typing import Any


def help_of(verb: Callable[..., Any]) -> str:
    """Return the docstring with each paragraph on one line (the terminal wraps it); indented lines stay as they are."""
    paragraphs = (inspect.getdoc(verb) or "").split("\n\n")
    return "\n\n".join(_joined(paragraph) for paragraph in paragraphs)


def _joined(paragraph: str) -> str:
    lines = paragraph.split("\n")
    return paragraph if any(line.startswith(" ") for line in lines) else " ".join(lines)
