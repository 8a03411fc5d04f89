"""predict: a run on your own pictures."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from patchword.cli.common import console, trained_model


def predict(
    model: Annotated[Path, typer.Argument(metavar="RUN", help="A run, or a saved model's folder or file.")],
    paths: Annotated[list[Path], typer.Argument(metavar="PATHS...", help="Pictures, or folders of pictures.")],
    to: Annotated[Path | None, typer.Option("--csv", help="Write the answers to this file.")] = None,
    top: Annotated[int, typer.Option("--top", help="How many classes to name for each picture.", min=1)] = 3,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, ...")] = "auto",
) -> None:
    """Classify pictures with a trained run.

    Example:  patchword predict runs/demo photo.png more/photos --csv answers.csv
    """
    from rich.markup import escape
    from rich.table import Table

    from patchword.core.files import write_text
    from patchword.recipes.prediction import classify, pictures_of

    answers = classify(trained_model(model), pictures_of(paths), top, device)
    if to:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        ranks = range(1, len(answers[0].classes) + 1)
        writer.writerow(["path", *(f"{kind}_{rank}" for rank in ranks for kind in ("class", "probability"))])
        for answer in answers:
            cells = [cell for name, share in answer.classes for cell in (name, f"{share:.6f}")]
            writer.writerow([answer.path, *cells])
        write_text(to, text.getvalue())
        console().print(f"{len(answers):,} answers in {to}", highlight=False, markup=False)
        return
    table = Table("picture", "class", "probability", "next")
    for answer in answers:
        (name, share), *others = answer.classes
        following = ", ".join(f"{other} {part:.1%}" for other, part in others)
        table.add_row(escape(str(answer.path)), escape(name), f"{share:.1%}", escape(following))
    console().print(table)
