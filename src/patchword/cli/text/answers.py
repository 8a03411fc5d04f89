"""Predictions for texts: printed as a table, or written as CSV or JSON lines."""

import csv
import io
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchword.core.printable import csv_cell

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.recipes.text.inference.answers import NoAnswer, TextAnswer
    from patchword.recipes.text.inference.input import TextInput
    from patchword.recipes.text.inference.reader import Counts

_SHOWN = 60  # characters of a text


class Answers:
    """Texts with their predictions. asked_as: the columns that repeat the input (text, pair, question).

    others: file -> line -> the remaining columns of an input table, which output files repeat.
    """

    def __init__(
        self,
        asked: "Sequence[TextInput]",
        answers: "Sequence[TextAnswer | NoAnswer]",
        asked_as: Sequence[str],
        others: Mapping[str, Mapping[int, Mapping[str, Any]]],
    ) -> None:
        self.asked, self.answers, self.asked_as, self.others = asked, answers, asked_as, others

    def json_lines(self) -> Iterator[str]:
        taken = {name for answer in self.answers for name in answer.record()} if self.others else ()
        for one, answer in self._pairs():
            yield json.dumps(self._with_others(one, answer.record(), taken), ensure_ascii=False) + "\n"

    def csv_lines(self) -> Iterator[str]:
        """Yield the lines of a CSV file; without input columns, the predictions are numbered."""
        columns = list(dict.fromkeys(name for row in self._csv_rows() for name in row))
        line = io.StringIO()
        writer = csv.DictWriter(line, columns, lineterminator="\n")
        writer.writerow({name: csv_cell(name) for name in columns})
        for row in self._csv_rows():
            writer.writerow({name: csv_cell(value) for name, value in row.items()})
            yield line.getvalue()
            line.seek(0)
            line.truncate()

    def print(self, out: "Console") -> None:
        from rich.table import Table
        from rich.text import Text

        answers = [self._rows(one, answer) for one, answer in self._pairs()]
        columns = list(dict.fromkeys(name for rows in answers for row in rows for name in row))
        table = Table(*columns)
        for rows in answers:
            for row in rows:
                table.add_row(*(Text(row.get(name, "")) for name in columns))
            if max(map(len, answers)) > 1:
                table.add_section()
        out.print(table)

    def write(self, to_csv: Path | None, to_jsonl: Path | None, out: "Console") -> None:
        from patchword.core.files import whole_file
        from patchword.reports.plots.numbers import counted

        for path, lines in ((to_csv, self.csv_lines), (to_jsonl, self.json_lines)):
            if path:
                with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
                    file.writelines(lines())
                out.print(f"{counted(self._answered(), 'answer')} in {path}", highlight=False, markup=False)

    def _answered(self) -> int:
        return sum(one.error is None for one in self.asked)

    def _csv_rows(self) -> Iterator[dict[str, Any]]:
        taken = {name for answer in self.answers for row in answer.rows() for name in row} if self.others else ()
        for number, (one, answer) in enumerate(self._pairs(), 1):
            first = {} if self.asked_as else {"number": number}
            yield from (first | self._with_others(one, row, taken) for row in answer.rows())

    def _with_others(self, one: "TextInput", answer: Mapping[str, Any], taken: Collection[str]) -> dict[str, Any]:
        """Add the remaining columns of the input; a column whose name an answer has becomes given_NAME."""
        from patchword.pipelines.bulk.records import combined

        others = self.others.get(one.place.get("file", ""), {}).get(one.place.get("line", 0), {})
        return combined(one.place, others, self._head(one), answer, taken)

    def _pairs(self) -> "Iterator[tuple[TextInput, TextAnswer | NoAnswer]]":
        return zip(self.asked, self.answers, strict=True)

    def _head(self, one: "TextInput") -> dict[str, Any]:
        inputs = {"text": one.text, "pair": one.pair, "question": one.pair}
        return one.place | {name: inputs[name] for name in self.asked_as if inputs[name] is not None}

    def _rows(self, one: "TextInput", answer: "TextAnswer | NoAnswer") -> list[dict[str, str]]:
        """The input is shown in the first row of its prediction."""
        first, *others = answer.cells()
        return [self._shown(one) | first, *others]

    def _shown(self, one: "TextInput") -> dict[str, str]:
        from patchword.reports.plots.numbers import shortened

        record = self._head(one)
        place = {name: str(record[name]) for name in ("line", "id") if name in record}
        return place | {name: shortened(record[name], _SHOWN) for name in self.asked_as if name in record}


def check_places(*paths: Path | None) -> None:
    """Check the output paths before the work starts."""
    from patchword.core.errors import UserError

    for path in paths:
        if path is not None and path.is_dir():
            raise UserError(f"cannot write {path}", got="it is a folder")


def messages(as_json: bool) -> "Console":
    """Return the console for messages: stderr if stdout carries JSON."""
    from patchword.training.console import PrintableConsole

    return PrintableConsole(stderr=as_json, soft_wrap=True)


@contextmanager
def progress(total: int, what: str = "texts") -> "Iterator[Callable[[float], None]]":
    """Show a progress bar on stderr if it is a terminal; yields the function that advances it."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from patchword.training.console import PrintableConsole

    console = PrintableConsole(stderr=True)
    count = TextColumn("{task.completed:,.0f}/{task.total:,} " + what)
    columns = (BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.advance(task, done)


def report_truncation(counts: "Counts", length: int | None, unit: str = "token") -> None:
    """Report on stderr how many texts were truncated or read in windows."""
    from patchword.training.console import PrintableConsole

    console = PrintableConsole(stderr=True, soft_wrap=True)
    if cut := counts.shortened:
        what = "1 text is" if cut == 1 else f"{cut:,} texts are"
        console.print(f"{what} longer than {length} {unit}s and truncated", highlight=False, style="yellow")
    if parts := counts.windowed:
        what = "1 text was" if parts == 1 else f"{parts:,} texts were"
        console.print(f"{what} longer than {length} {unit}s and read in windows", highlight=False)
