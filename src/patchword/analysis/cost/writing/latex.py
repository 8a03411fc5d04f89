"""A count as LaTeX that compiles inside any document with the package amsmath."""

import re
from collections.abc import Iterable, Sequence

from patchword.analysis.cost.writing.calculation import TITLES, Calculation, Chapter

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_TERMS = 5  # of a sum on one line
_LINE = 60  # characters of a sum that fit into a line of the class article, beside the word "parameters"
_ROW = 76  # the same for a formula with its label


def as_latex(found: Calculation, steps: bool = True) -> str:
    """Return a calculation as LaTeX. steps: False for the parts and their sums alone."""
    title = rf"\subsection*{{\raggedright Cost of {_words(found.title)}}}"
    blocks = [r"% needs \usepackage{amsmath}", title, _assumptions(found)]
    for chapter in found.chapters if steps else ():
        if found.several:
            blocks.append(rf"\subsubsection*{{\raggedright {_words(chapter.heading())}}}")
        blocks += _chapter(chapter, with_sums=found.several)
    blocks.append(r"\paragraph{Sums.}")
    if found.several:
        blocks += [_parts(table) for table in found.tables]
    blocks.append(_sums(found))
    counted = "\n\n".join(map(_words, found.conventions))
    return "\n\n".join([*blocks, rf"\paragraph{{What is counted.}} {counted}"]) + "\n"


def _assumptions(found: Calculation) -> str:
    facts = [f"Input: {found.input_words()}", *found.facts]
    return _environment("itemize", [rf"\item {_words(fact)}" for fact in facts])


def _chapter(chapter: Chapter, with_sums: bool) -> list[str]:
    blocks = []
    if chapter.given:
        given = [
            f"${_formula(size.letter)} = {_formula(f'{size.symbol.value:,}')}$ ({_words(size.symbol.meaning)})"
            for size in chapter.given
        ]
        blocks.append(rf"\paragraph{{Given.}} {', '.join(given)}.")
    if chapter.derived:
        longest = max(len(size.symbol.meaning) for size in chapter.derived)
        rows = [
            row
            for size in chapter.derived
            for row in _size(size.letter, size.working().partition(" = ")[2], size.symbol.meaning, _ROW - longest)
        ]
        blocks += [r"\paragraph{Sizes.}", _aligned(rows)]
    for what, sum_of in chapter.sums.items():
        counts = [(line.label, getattr(line, what)) for line in chapter.lines]
        shown = [(f"{label}:", expression.working()) for label, expression in counts if expression]
        longest = max((len(label) for label, _ in shown), default=0)
        rows = [row for label, working in shown for row in _step(label, working, _ROW - longest)]
        blocks += [rf"\paragraph{{{TITLES[what][0].upper()}{TITLES[what][1:]}.}}", _aligned(rows)]
        if with_sums and len(rows) > 1:
            blocks.append(_aligned(_sum("sum", sum_of)))
    return blocks


def _size(letter: str, working: str, meaning: str, room: int) -> list[str]:
    first, *others = map(_formula, _equalities(working, room))
    return [rf"{_formula(letter)} &= {first} && \text{{{_words(meaning)}}}", *(f"&= {part}" for part in others)]


def _step(label: str, working: str, room: int) -> list[str]:
    first, *others = map(_formula, _equalities(working, room))
    return [rf"& \text{{{_words(label)}}} & & {first}", *(rf"& & & \quad = {part}" for part in others)]


def _equalities(working: str, room: int) -> list[str]:
    """Split "a = b = c" before those equals signs where a line would have more than `room` characters."""
    lines: list[str] = []
    for part in working.split(" = "):
        if lines and len(lines[-1]) + len(part) + 3 <= room:
            lines[-1] += f" = {part}"
        else:
            lines.append(part)
    return lines


def _parts(rows: Sequence[tuple[str, int, int]]) -> str:
    lines = [r"part & MACs & parameters \\ \hline"]
    lines += [rf"{_words(name)} & {macs:,} & {parameters:,} \\" for name, macs, parameters in rows]
    return _environment("center", [_environment("tabular", lines, "{lrr}")])


def _sums(found: Calculation) -> str:
    rows = []
    for what, (words, numbers) in found.sums.items():
        if words:
            groups = [[_term(term) for term in group] for group in _groups(words.split(" + "))]
            rows += _lines(rf"\text{{{TITLES[what]}}}", groups)
        rows += _sum("" if words else TITLES[what], numbers)
    return _aligned(rows)


def _sum(name: str, text: str) -> list[str]:
    """Return the lines of a sum, whose result is bold."""
    left = rf"\text{{{name}}}" if name else ""
    before, _, total = text.rpartition(" = ")
    result = rf"\mathbf{{{_formula(total)}}}"
    if not before:
        return [rf"{left} &= {result}"]
    groups = _groups(before.split(" + "))
    lines = _lines(left, [[_formula(term) for term in group] for group in groups])
    if len(" + ".join(groups[-1])) + len(total) + 3 > _LINE:
        return [*lines, f"&= {result}"]
    return [*lines[:-1], f"{lines[-1]} = {result}"]


def _groups(terms: Sequence[str]) -> list[list[str]]:
    """Return the terms of a sum by line: as many as fit, and at most five."""
    groups: list[list[str]] = [[]]
    for term in terms:
        if groups[-1] and (len(groups[-1]) == _TERMS or len(" + ".join([*groups[-1], term])) > _LINE):
            groups.append([])
        groups[-1].append(term)
    return groups


def _lines(left: str, groups: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of an equation whose right side is a sum; a long one has several."""
    rows = [" + ".join(group) for group in groups]
    return [f"{left} &= {rows[0]}", *(rf"&\quad + {row}" for row in rows[1:])]


def _term(text: str) -> str:
    times, found, title = text.partition(" x ")
    return rf"{times} \cdot \text{{{_words(title)}}}" if found else rf"\text{{{_words(text)}}}"


def _aligned(rows: Iterable[str]) -> str:
    return _environment("align*", [" \\\\\n".join(rows)])


def _environment(name: str, lines: Iterable[str], options: str = "") -> str:
    return "\n".join([rf"\begin{{{name}}}{options}", *lines, rf"\end{{{name}}}"])


def _formula(text: str) -> str:
    """Return a formula or a number for math mode."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "{,}", text.replace(" x ", r" \cdot "))
    return re.sub(r"ceil\(((?:[^()]|\([^()]*\))*)\)", r"\\lceil \1 \\rceil", text)


def _words(text: str) -> str:
    """Return text outside of math mode."""
    escaped = "".join(_SPECIAL.get(character, character) for character in text)
    return escaped.replace(" x ", r" $\times$ ")
