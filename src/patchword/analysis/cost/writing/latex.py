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


def as_latex(found: Calculation, steps: bool = True) -> str:
    """Return a calculation as LaTeX. steps: False for the parts and their sums alone."""
    title = rf"\subsection*{{Cost of {_words(found.title)}}}"
    blocks = [r"% needs \usepackage{amsmath}", title, _assumptions(found)]
    for chapter in found.chapters if steps else ():
        if found.several:
            blocks.append(rf"\subsubsection*{{{_words(chapter.heading())}}}")
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
        rows = [_row(size.letter, size.working().partition(" = ")[2], size.symbol.meaning) for size in chapter.derived]
        blocks += [r"\paragraph{Sizes.}", _aligned(rows)]
    for what, sum_of in chapter.sums.items():
        counts = [(line.label, getattr(line, what)) for line in chapter.lines]
        rows = [
            rf"& \text{{{_words(label)}:}} & & {_formula(expression.working())}"
            for label, expression in counts
            if expression
        ]
        blocks += [rf"\paragraph{{{TITLES[what][0].upper()}{TITLES[what][1:]}.}}", _aligned(rows)]
        if with_sums and len(rows) > 1:
            blocks.append(_aligned(_sum("sum", sum_of)))
    return blocks


def _row(letter: str, working: str, meaning: str) -> str:
    return rf"{_formula(letter)} &= {_formula(working)} && \text{{{_words(meaning)}}}"


def _parts(rows: Sequence[tuple[str, int, int]]) -> str:
    lines = [r"part & MACs & parameters \\ \hline"]
    lines += [rf"{_words(name)} & {macs:,} & {parameters:,} \\" for name, macs, parameters in rows]
    return _environment("center", [_environment("tabular", lines, "{lrr}")])


def _sums(found: Calculation) -> str:
    rows = []
    for what, (words, numbers) in found.sums.items():
        if words:
            rows += _lines(rf"\text{{{TITLES[what]}}}", [_term(term) for term in words.split(" + ")])
        rows += _sum("" if words else TITLES[what], numbers)
    return _aligned(rows)


def _sum(name: str, text: str) -> list[str]:
    """Return the lines of a sum, whose result is bold."""
    before, _, total = text.rpartition(" = ")
    lines = (
        _lines(rf"\text{{{name}}}" if name else "", [_formula(term) for term in before.split(" + ")]) if before else []
    )
    result = rf"\mathbf{{{_formula(total)}}}"
    return [*lines[:-1], f"{lines[-1]} = {result}"] if lines else [rf"\text{{{name}}} &= {result}"]


def _lines(left: str, terms: Sequence[str]) -> list[str]:
    """Return the rows of an equation whose right side is a sum; a long one has several."""
    rows = [" + ".join(terms[index : index + _TERMS]) for index in range(0, len(terms), _TERMS)]
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
