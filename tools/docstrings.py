"""A Griffe extension for the API reference: our plain docstrings as Markdown.

A docstring describes an argument by a line `name: text`, and shows an example by lines that begin with `>>>`.
The reference shows the first as a list and the second as code.
"""

import re
from collections.abc import Collection
from typing import Any

import griffe

ARGUMENT = re.compile(r"^(?P<name>\w+(, \w+)*): (?P<text>\S.*)$")


def to_markdown(docstring: str, arguments: Collection[str]) -> str:
    """A docstring with its arguments as a Markdown list and its examples as fenced code."""
    lines: list[str] = []
    kind = ""  # of the line above: "", "argument" or "example"
    for line in docstring.splitlines():
        match = ARGUMENT.match(line)
        if line.startswith(">>>") and kind != "example":
            lines += ["", "```pycon", line]
            kind = "example"
        elif kind == "example":
            if not line.strip():
                lines.append("```")
                kind = ""
            lines.append(line)
        elif match and set(match["name"].split(", ")) <= set(arguments):
            names = ", ".join(f"`{name}`" for name in match["name"].split(", "))
            lines += [*([] if kind == "argument" else [""]), f"- {names}: {match['text']}"]
            kind = "argument"
        elif kind == "argument" and line.startswith(" "):
            lines.append(f"  {line.strip()}")
        else:
            lines += ["", line] if kind == "argument" and line.strip() else [line]
            kind = ""
    if kind == "example":
        lines.append("```")
    return "\n".join(lines)


def arguments_of(item: griffe.Object) -> set[str]:
    """Names that the docstring of a function or of a class may describe."""
    if isinstance(item, griffe.Function):
        return {parameter.name.lstrip("*") for parameter in item.parameters}
    if isinstance(item, griffe.Class):
        return {parameter.name.lstrip("*") for parameter in item.parameters} | item.members.keys()
    return set()


class PlainDocstrings(griffe.Extension):
    """Changes all docstrings of a package when it has been read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        change(pkg)


def change(item: griffe.Object) -> None:
    """Change the docstring of an object and of all that it defines itself."""
    if item.docstring is not None:
        item.docstring.value = to_markdown(item.docstring.value, arguments_of(item))
    for member in item.members.values():
        if isinstance(member, griffe.Object):
            change(member)
