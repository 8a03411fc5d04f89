"""Tables that a notebook shows as HTML and a terminal as text."""

from collections.abc import Callable, Mapping, Sequence
from html import escape


class Table(list[dict[str, float]]):
    """Rows with named columns: a list of dictionaries, which `pandas.DataFrame(table)` also takes.

    >>> run.metrics()[-1]["validation_accuracy"]
    """

    def columns(self) -> list[str]:
        """Return the names of all columns, in the order of their first row."""
        return list(dict.fromkeys(name for row in self for name in row))

    def __repr__(self) -> str:
        return text_table([self.columns(), *self._cells()], str.rjust) if self else "no rows"

    def _repr_html_(self) -> str:
        return html_table(self.columns(), self._cells())

    def _cells(self) -> list[list[str]]:
        return [[format_cell(row[name]) if name in row else "" for name in self.columns()] for row in self]


def format_cell(value: float) -> str:
    """Return a number with at most four significant digits; whole numbers in full."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def text_table(rows: Sequence[Sequence[str]], align: Callable[[str, int], str] = str.ljust) -> str:
    """Return rows as lines of text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(align(cell, width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(lines)


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; all texts are escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_fields(fields: Mapping[str, str]) -> str:
    """Return an HTML table with one row per field."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in fields.items())
    return f"<table><tbody>{rows}</tbody></table>"
