"""The cost of the model with every calculation step: one block, then the whole model."""

from collections.abc import Callable, Iterator
from itertools import groupby

from patchword.analysis.cost import CONVENTION, Cost, blocks_of, count
from patchword.analysis.cost.expression import Expression
from patchword.analysis.cost.rules import Kind, Line
from patchword.core.card import Card
from patchword.reports.plots import page

_HEAD = ("part", "multiply-accumulates (MACs)", "parameters")
_KINDS: dict[Kind, str] = {
    "linear": "linear layers",
    "attention": "attention products",
    "convolution": "convolutions",
    "other": "other parameters",
}


def cost_section(card: Card) -> str:
    """Return the section on parameters and MACs."""
    whole, blocks = count(card), blocks_of(card)
    html = page.paragraph(f"MACs are {page.escape(CONVENTION)}")
    if blocks:
        html += _block(whole.below(blocks[0]))
    return page.section("Cost", html + _whole(whole, blocks))


def _block(cost: Cost) -> str:
    rows = [_line(line, cost.part) for line in cost.lines]
    caption = f"One encoder block ({cost.part})"
    return page.table(caption, _HEAD, rows, _totals(cost, _sum), kind="cost") + _letters(cost)


def _whole(cost: Cost, blocks: list[str]) -> str:
    rows: list[str] = []
    outside: list[Line] = []
    for group in grouped(cost, blocks):
        if group[0].part in blocks:
            rows.append(_blocks(group))
        else:
            rows += [_line(line, "") for line in group[0].lines]
            outside += group[0].lines
    size = " \N{MULTIPLICATION SIGN} ".join(str(side) for side in cost.input[1:])
    one = f"text of {size} tokens" if len(cost.input) == 2 else f"image of {size} (channels, height, width)"
    caption = f"The whole model, {cost.model}, for one {one}"
    table = page.table(caption, _HEAD, rows, _totals(cost, _total), kind="cost")
    return table + _letters(Cost(cost.model, cost.part, cost.input, tuple(outside)))


def grouped(cost: Cost, blocks: list[str]) -> Iterator[list[Cost]]:
    """Yield the parts in order: consecutive blocks of equal cost together, all other parts alone."""

    def block_of(line: Line) -> str:
        return next((block for block in blocks if line.part.startswith(f"{block}.")), "")

    parts = [Cost(cost.model, part, cost.input, tuple(lines)) for part, lines in groupby(cost.lines, block_of)]
    for _, equal in groupby(parts, lambda part: (bool(part.part), [(line.label, line.macs) for line in part.lines])):
        yield list(equal)


def _blocks(group: list[Cost]) -> str:
    one, times = group[0], len(group)
    if times == 1:
        return page.row(_name("encoder block", one.part), f"{one.macs:,}", f"{one.parameters:,}")
    name = _name(f"{times} encoder blocks", f"{one.part} to {group[-1].part}")
    values = [f"{times} x {value:,} = {times * value:,}" for value in (one.macs, one.parameters)]
    return page.row(name, *(_working(value) for value in values))


def _line(line: Line, inside: str) -> str:
    name = _name(line.label, line.part.removeprefix(f"{inside}."))
    return page.row(name, *(_working(_formula(expression)) for expression in (line.macs, line.parameters)))


def _formula(expression: Expression | None) -> str:
    return expression.working() if expression else ""


def _name(label: str, part: str) -> str:
    return f"{_times(label)} <small>{page.escape(part).replace('.', '.<wbr>')}</small>"


def _working(text: str) -> str:
    """Keep each step together, so that lines break before an equals sign."""
    first, *rest = _times(text).split(" = ")
    return " ".join(f"<span>{step}</span>" for step in [first, *(f"= {step}" for step in rest)])


def _times(text: str) -> str:
    return page.escape(text).replace(" x ", " \N{MULTIPLICATION SIGN} ")


def _totals(cost: Cost, add: Callable[[list[int]], str]) -> Iterator[str]:
    """Yield the subtotals and the total; `add` formats a sum."""
    for kind, name in _KINDS.items():
        lines = [line for line in cost.lines if line.kind == kind]
        macs = [line.macs.value for line in lines if line.macs]
        parameters = [line.parameters.value for line in lines if line.parameters]
        if macs or parameters:
            yield page.row(name, *(add(values) if values else "" for values in (macs, parameters)))
    yield page.row("total", f"{cost.macs:,}", f"{cost.parameters:,}", kind="total")


def _sum(values: list[int]) -> str:
    """Format a sum; a long one breaks after a plus."""
    first, *rest = (f"{value:,}" for value in values)
    steps = [first, *(f"+ {value}" for value in rest), *([f"= {sum(values):,}"] if rest else [])]
    return " ".join(f"<span>{step}</span>" for step in steps)


def _total(values: list[int]) -> str:
    return f"{sum(values):,}"


def _letters(cost: Cost) -> str:
    letters = (
        f"<b>{name}</b> = {' or '.join(f'{value:,}' for value in values)} ({page.escape(meaning)})"
        for name, (values, meaning) in cost.symbols().items()
    )
    return page.paragraph(" ".join(f"<span>{letter}</span>" for letter in letters), "letters")
