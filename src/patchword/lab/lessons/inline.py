"""The text of a step: emphasis, code and links to views of the lab. All else is text, HTML too."""

import re
from collections.abc import Callable, Iterator

from patchword.lab.lessons.lesson import Span

_SPAN = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\*\*(?P<strong>[^\s*](?:[^*]*[^\s*])?)\*\*"
    r"|\*(?P<emphasis>[^\s*](?:[^*]*[^\s*])?)\*"
    r"|\[(?P<link>[^\[\]]+)\]\((?P<to>[^()\s]*)\)"
)


def read_spans(text: str, check: Callable[[str], str]) -> tuple[Span, ...]:
    """Return the pieces of a text. check: returns the address of a view, or raises."""
    return tuple(_spans(text, check))


def _spans(text: str, check: Callable[[str], str]) -> Iterator[Span]:
    end = 0
    for found in _SPAN.finditer(text):
        if found.start() > end:
            yield Span("text", text[end : found.start()])
        kind = next(name for name in ("code", "strong", "emphasis", "link") if found[name] is not None)
        yield Span(kind, found[kind], check(found["to"]) if kind == "link" else "")
        end = found.end()
    if end < len(text):
        yield Span("text", text[end:])
