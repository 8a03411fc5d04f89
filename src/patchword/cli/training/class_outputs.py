"""predict with a classifier of images: its classes as a table, CSV or JSON lines."""

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from patchword.cli.common import console
from patchword.cli.text.answers import messages
from patchword.core.printable import csv_cell, path_text

if TYPE_CHECKING:
    from patchword.pipelines.predictions import Prediction, Predictions


def write_classes(answers: "Predictions", to: Path | None, jsonl: Path | None, as_json: bool) -> None:
    """Write classes and probabilities of images to a CSV file, a file of JSON lines or stdout; else print a table."""
    from rich.markup import escape
    from rich.table import Table

    from patchword.core.files import write_text
    from patchword.reports.plots.numbers import counted

    unreadable = [answer for answer in answers if answer.error]
    for path, text in ((to, _csv), (jsonl, _json_lines)):
        if path:
            write_text(path, text(answers))
            count = counted(len(answers) - len(unreadable), "answer")
            messages(as_json).print(f"{count} in {path}", highlight=False, markup=False)
    if as_json:
        typer.echo(_json_lines(answers), nl=False)
    if to or jsonl or as_json:
        return
    table = Table("image", "label", "probability", "next")
    for answer in (answer for answer in answers if not answer.error):
        (name, probability), *others = answer.classes
        following = ", ".join(f"{other} {part:.1%}" for other, part in others)
        table.add_row(escape(path_text(answer.input)), escape(name), f"{probability:.1%}", escape(following))
    console().print(table)


def _csv(answers: "Predictions") -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ranks = range(1, max(len(answer.classes) for answer in answers if not answer.error) + 1)
    names = [f"{kind}_{rank}" for rank in ranks for kind in ("class", "probability")]
    has_errors = any(answer.error for answer in answers)
    writer.writerow(["path", *names, *(["error"] if has_errors else [])])
    for answer in answers:
        classes = () if answer.error else answer.classes
        cells = [cell for name, probability in classes for cell in (name, f"{probability:.6f}")]
        cells += [""] * (len(names) - len(cells))
        cells += [path_text(answer.error)] if has_errors else []
        writer.writerow(csv_cell(one) for one in [path_text(answer.input), *cells])
    return text.getvalue()


def _json_lines(answers: "Predictions") -> str:
    return "".join(json.dumps(_record(answer), ensure_ascii=False) + "\n" for answer in answers)


def _record(answer: "Prediction") -> dict[str, Any]:
    found = answer.output.record() if answer.output is not None else {"error": path_text(answer.error)}
    return {"path": path_text(answer.input)} | found
