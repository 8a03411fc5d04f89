"""A count as plain text, as `patchword cost` prints it."""

from collections.abc import Sequence

from patchword.analysis.cost.sizes import Size
from patchword.analysis.cost.writing.calculation import TITLES, Calculation, Chapter


def as_text(found: Calculation, steps: bool = True) -> str:
    """Return a calculation as plain text. steps: False for the parts and their sums alone."""
    size = " x ".join(str(side) for side in found.input)
    lines = [f"{found.title}, input {size}", ""]
    lines += _steps(found.chapters) if steps else []
    for table in found.tables if not steps or found.several else []:
        lines += [*_table(table), ""]
    lines += [*_sums(found), ""]
    lines += [f"  {title:<20}{macs:>20,} MACs" for title, macs in found.kinds.items() if macs]
    lines.append(f"  {'total':<20}{found.totals['macs']:>20,} MACs")
    lines.append(f"  {'parameters':<20}{found.totals['parameters']:>20,}")
    lines += [f"  {fact}" for fact in found.facts]
    return "\n".join([*lines, "", *found.conventions])


def _steps(found: Sequence[Chapter]) -> list[str]:
    lines = []
    for chapter in found:
        inside = "  " if len(found) > 1 else ""
        if inside:
            name = f" ({chapter.name})" if chapter.name != chapter.title else ""
            lines += [f"{chapter.heading()}{name}", ""]
        lines += [f"{inside}{line}" if line else "" for line in _chapter(chapter, with_sums=len(found) > 1)]
    return lines


def _chapter(chapter: Chapter, with_sums: bool) -> list[str]:
    lines = []
    if chapter.sizes:
        lines += ["Sizes", *(f"  {line}" for line in _sizes(chapter)), ""]
    for what, sum_of in chapter.sums.items():
        counts = [(line.label, getattr(line, what)) for line in chapter.lines]
        rows = [(label, expression.working()) for label, expression in counts if expression]
        if with_sums and len(rows) > 1:
            rows.append(("sum", sum_of))
        width = max(len(label) for label, _ in rows)
        lines += [
            TITLES[what][0].upper() + TITLES[what][1:],
            *(f"  {label:<{width}}  {working}" for label, working in rows),
            "",
        ]
    return lines


def _sizes(chapter: Chapter) -> list[str]:
    given = ", ".join(_with_meaning(size) for size in chapter.given)
    return [*([given] if given else []), *(_with_meaning(size) for size in chapter.derived)]


def _with_meaning(size: Size) -> str:
    return f"{size.working()} ({size.symbol.meaning})"


def _table(rows: Sequence[tuple[str, int, int]]) -> list[str]:
    width = max(len(name) for name, _, _ in rows) + 2
    lines = [f"  {'part':<{width}}{'MACs':>18}{'parameters':>16}"]
    return lines + [f"  {name:<{width}}{macs:>18,}{parameters:>16,}" for name, macs, parameters in rows]


def _sums(found: Calculation) -> list[str]:
    lines = ["Sum"]
    for what, (words, numbers) in found.sums.items():
        numbers = f"{numbers} {TITLES[what]}"
        lines += [f"  {words}", f"  = {numbers}"] if words else [f"  {numbers}"]
    return lines
