"""Text as markup: words shaded by a weight, parts marked. All user text is escaped here."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from patchword.reports.plots import page

_STRONGEST = 0.55  # opacity of the word with the largest weight: the text stays readable
_AROUND = 110  # characters shown on each side of a mark
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


class Part(NamedTuple):
    """The characters [start, end) of a text, and how they are marked: "given", "true", "wrong" or "gap"."""

    start: int
    end: int
    kind: str


class Shade(NamedTuple):
    """The characters [start, end) of a text, and their weight from 0 to 1."""

    start: int
    end: int
    weight: float


def passage(html: str) -> str:
    """Return a text as its own paragraph, with its own writing direction."""
    return f'<p class="passage" dir="auto">{html}</p>\n'


def shaded(text: str, shades: Sequence[Shade], most: int) -> str:
    """Return the text as HTML with shaded words; an ellipsis replaces the text after the last shaded word."""
    html, place = "", 0
    for shade in shades:
        if shade.end > most:
            break
        opacity = f"{_STRONGEST * shade.weight:.3f}".rstrip("0").rstrip(".")
        html += page.escape(text[place : shade.start])
        html += (
            f'<span style="background:rgba(0,114,178,{opacity})">{page.escape(text[shade.start : shade.end])}</span>'
        )
        place = shade.end
    return html + (f" {ELLIPSIS}" if text[place:].strip() else "")


def marked(text: str, parts: Sequence[Part], around: int = _AROUND) -> str:
    """Return the surroundings of the marked parts; overlapping parts have both marks."""
    shown = list(_stretches(text, parts, around))
    if not shown:
        shown = [(0, min(len(text), 2 * around))]
    pieces = [_stretch(text, parts, start, end) for start, end in shown]
    html = f" {ELLIPSIS} ".join(pieces)
    html = html if shown[0][0] == 0 else f"{ELLIPSIS} {html}"
    return html if shown[-1][1] == len(text) else f"{html} {ELLIPSIS}"


def _stretches(text: str, parts: Sequence[Part], around: int) -> Iterator[tuple[int, int]]:
    """Yield the surroundings of marks, merged where they touch."""
    begin = finish = -1
    for part in sorted(parts):
        start, end = _words_before(text, part.start, around), _words_after(text, part.end, around)
        if finish >= 0 and start > finish:
            yield begin, finish
            begin = -1
        begin = start if begin < 0 else begin
        finish = max(finish, end)
    if begin >= 0:
        yield begin, finish


def _words_before(text: str, place: int, around: int) -> int:
    """Return where the surroundings of a mark start: at a word, if possible."""
    start = max(0, place - around)
    space = text.find(" ", start, place)
    return start if start == 0 or space < 0 else space + 1


def _words_after(text: str, place: int, around: int) -> int:
    end = min(len(text), place + around)
    space = text.rfind(" ", place, end)
    return end if end == len(text) or space < 0 else space


def _stretch(text: str, parts: Sequence[Part], start: int, end: int) -> str:
    edges = sorted({start, end, *(edge for part in parts for edge in part[:2] if start < edge < end)})
    html = ""
    for first, last in pairwise(edges):
        kinds = " ".join(dict.fromkeys(part.kind for part in parts if part.start <= first and last <= part.end))
        piece = page.escape(text[first:last])
        html += f'<mark class="{kinds}">{piece}</mark>' if kinds else piece
    return html
