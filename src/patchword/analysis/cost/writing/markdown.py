"""A count as Markdown with tables, which renders on GitHub, in notebooks and with pandoc."""

import re
from collections.abc import Iterable, Sequence

from patchword.analysis.cost.writing.calculation import TITLES, Calculation, Chapter


def as_markdown(found: Calculation, steps: bool = True) -> str:
    """Return a calculation as Markdown. steps: False for the parts and their sums alone."""
    blocks = [f"## Cost of {_escaped(found.title)}", _assumptions(found)]
    for chapter in found.chapters if steps else ():
        if found.several:
            name = f" (`{chapter.name}`)" if chapter.name != chapter.title else ""
            blocks.append(f"### {_escaped(chapter.heading())}{name}")
        blocks += _chapter(chapter, with_sums=found.several)
    blocks.append("### Sums")
    if found.several:
        blocks += [_parts(table) for table in found.tables]
    blocks.append(_sums(found))
    return "\n\n".join([*blocks, "### What is counted", *map(_escaped, found.conventions)]) + "\n"


def _assumptions(found: Calculation) -> str:
    facts = [f"Input: {found.input_words()}", *found.facts]
    return "\n".join(f"- {_escaped(fact)}" for fact in facts)


def _chapter(chapter: Chapter, with_sums: bool) -> list[str]:
    blocks = []
    if chapter.sizes:
        sizes = [*chapter.given, *chapter.derived]
        rows: list[Sequence[str]] = [
            (size.letter, size.symbol.meaning, size.working().partition(" = ")[2]) for size in sizes
        ]
        blocks.append(_table(("symbol", "meaning", "value"), rows))
    counts = [(line.label, line.macs, line.parameters) for line in chapter.lines]
    rows = [(label, *(one.working() if one else "-" for one in both)) for label, *both in counts]
    if with_sums and len(rows) > 1:
        rows.append(("sum", *(chapter.sums.get(what, "-") for what in TITLES)))
    return [*blocks, _table(("part", *TITLES.values()), rows)]


def _parts(rows: Sequence[tuple[str, int, int]]) -> str:
    table = [(f"`{name}`", f"{macs:,}", f"{parameters:,}") for name, macs, parameters in rows]
    return _table(("part", *TITLES.values()), table)


def _sums(found: Calculation) -> str:
    lines = []
    for what, (words, numbers) in found.sums.items():
        before, _, total = numbers.rpartition(" = ")
        terms = " = ".join(_escaped(text) for text in (words, before) if text)
        lines.append(f"- {TITLES[what]}: {terms}{' = ' if terms else ''}**{total}**")
    return "\n".join(lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    """Return text with multiplication signs, in which no character starts a markup; code in backticks stays."""
    pieces = re.split(r"(`[^`]*`)", text.replace(" x ", " \N{MULTIPLICATION SIGN} "))
    return "".join(piece if piece.startswith("`") else re.sub(r"([\\*_<>|\[\]#])", r"\\\1", piece) for piece in pieces)
