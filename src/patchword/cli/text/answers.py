"""Answers to texts: printed as a table, or written as CSV or JSON lines."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.recipes.text.inference.answers import TextAnswer
    from patchword.recipes.text.inference.input import Asked
    from patchword.recipes.text.inference.reader import Reader

_SHOWN = 60  # characters of a text


class Answers:
    """What was asked and what was answered. asked_as: what is told of it, and under which names.

    others: file -> line -> what a table has besides, which files of answers repeat.
    """

    def __init__(
        self,
        asked: "Sequence[Asked]",
        answers: "Sequence[TextAnswer]",
        asked_as: Sequence[str],
        others: Mapping[str, Mapping[int, Mapping[str, Any]]],
    ) -> None:
        self.asked, self.answers, self.asked_as, self.others = asked, answers, asked_as, others

    def json_lines(self) -> Iterator[str]:
        for one, answer in self._pairs():
            yield json.dumps(self._with_others(one, answer.record()), ensure_ascii=False) + "\n"

    def csv_lines(self) -> Iterator[str]:
        """Texts that are not told themselves are numbered."""
        columns = list(dict.fromkeys(name for row in self._csv_rows() for name in row))
        line = io.StringIO()
        writer = csv.DictWriter(line, columns, lineterminator="\n")
        writer.writeheader()
        for row in self._csv_rows():
            writer.writerow(row)
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
                out.print(f"{counted(len(self.answers), 'answer')} in {path}", highlight=False, markup=False)

    def _csv_rows(self) -> Iterator[dict[str, Any]]:
        for number, (one, answer) in enumerate(self._pairs(), 1):
            first = {} if self.asked_as else {"number": number}
            yield from (first | self._with_others(one, row) for row in answer.rows())

    def _with_others(self, one: "Asked", answer: Mapping[str, Any]) -> dict[str, Any]:
        """A column that is called as one of the answer's comes back as given_NAME."""
        told = self._head(one) | dict(answer)
        others = self.others.get(one.place.get("file", ""), {}).get(one.place.get("line", 0), {})
        kept = {f"given_{name}" if name in told else name: cell for name, cell in others.items()}
        return one.place | kept | told

    def _pairs(self) -> "Iterator[tuple[Asked, TextAnswer]]":
        return zip(self.asked, self.answers, strict=True)

    def _head(self, one: "Asked") -> dict[str, Any]:
        told = {"text": one.text, "pair": one.pair, "question": one.pair}
        return one.place | {name: told[name] for name in self.asked_as if told[name] is not None}

    def _rows(self, one: "Asked", answer: "TextAnswer") -> list[dict[str, str]]:
        """What was asked stands before the first row of its answer."""
        first, *others = answer.cells()
        return [self._shown(one) | first, *others]

    def _shown(self, one: "Asked") -> dict[str, str]:
        from patchword.reports.plots.numbers import shortened

        told = self._head(one)
        place = {name: str(told[name]) for name in ("line", "id") if name in told}
        return place | {name: shortened(told[name], _SHOWN) for name in self.asked_as if name in told}


def check_places(*paths: Path | None) -> None:
    """Before the work, not after it."""
    from patchword.core.errors import UserError

    for path in paths:
        if path is not None and path.is_dir():
            raise UserError(f"cannot write {path}", got="it is a folder")


def messages(as_json: bool) -> "Console":
    """Where files are told: not among the JSON."""
    from rich.console import Console

    return Console(stderr=as_json, soft_wrap=True)


@contextmanager
def progress(total: int, what: str = "texts") -> "Iterator[Callable[[float], None]]":
    """A bar on stderr, where someone looks at it; the function it yields is told what is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    told = Console(stderr=True)
    count = TextColumn("{task.completed:,.0f}/{task.total:,} " + what)
    columns = (BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=told, transient=True, disable=not told.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.advance(task, done)


def tell_counts(reader: "Reader", length: int) -> None:
    """What became of long texts, on stderr."""
    from rich.console import Console

    told = Console(stderr=True, soft_wrap=True)
    if cut := reader.counts.shortened:
        what = "1 text is" if cut == 1 else f"{cut:,} texts are"
        told.print(f"{what} longer than {length} tokens; the rest was not read", highlight=False, style="yellow")
    if parts := reader.counts.windowed:
        what = "1 text was" if parts == 1 else f"{parts:,} texts were"
        told.print(f"{what} longer than {length} tokens and read in windows", highlight=False)
