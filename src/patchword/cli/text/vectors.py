"""vectors: learns one vector per word from text; finds the nearest words, and solves analogies."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from patchword.cli.common import Json, console
from patchword.cli.help import help_of

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.recipes.vectors.words import Neighbour
    from patchword.recipes.vectors.words_training import Done, Learned, WordVectorOptions

app = typer.Typer(help="Learn word vectors from text (CBOW, skip-gram), and query them.", no_args_is_help=True)

File = Annotated[
    str, typer.Argument(metavar="VECTORS", help="Word vectors in word2vec's text or .bin format, or zoo:NAME.")
]
Count = Annotated[int, typer.Option("-n", "--count", min=1, help="How many words to show.")]


def train(
    files: Annotated[
        list[Path], typer.Argument(metavar="TEXT", help="Text or .jsonl files (field text), or folders of them.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Output file of the vectors.")],
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="skip-gram or cbow.")] = "skip-gram",
    width: Annotated[int, typer.Option("--width", min=1, help="Dimension of the vectors.")] = 100,
    window: Annotated[int, typer.Option("--window", min=1, help="Maximum context words on each side.")] = 5,
    negatives: Annotated[int, typer.Option("--negatives", min=1, help="Negative samples per positive pair.")] = 5,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the text.")] = 5,
    rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Initial learning rate.", show_default="0.025; cbow: 0.05")
    ] = None,
    sample: Annotated[
        float, typer.Option("--sample", min=0, help="Subsample words more frequent than this fraction; 0: off.")
    ] = 1e-3,
    least: Annotated[
        int, typer.Option("--min-frequency", min=1, metavar="N", help="Ignore words seen less often.")
    ] = 5,
    most: Annotated[int | None, typer.Option("--vocabulary", min=2, help="Maximum vocabulary size.")] = None,
    cut: Annotated[
        str,
        typer.Option(
            "--cut",
            metavar="HOW",
            help="words: lowercase, no punctuation; marks: as written, with punctuation; spaces: split at spaces.",
        ),
    ] = "words",
    threads: Annotated[int, typer.Option("--threads", min=1, help="Only 1 is reproducible from the seed.")] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the weights and the sampling.")] = 0,
) -> None:
    """Learn a vector per word from the words around it, and write them in word2vec's text format.

    Each line of a text is a sentence; a context window does not cross its ends.

    Examples:

      patchword vectors train books --out vectors.txt
      patchword vectors train wiki.jsonl --kind cbow --width 300 --epochs 3 --threads 2 --out vectors.txt
    """
    from patchword.recipes.vectors.words_training import WordVectorOptions

    _check_place(out)
    wanted = WordVectorOptions(
        cast(Any, kind), width, window, negatives, epochs, rate, sample, least, most, cut, threads, seed
    )
    screen = console()
    learned = _learn(files, wanted, screen)
    learned.vectors.save(out)
    done = learned.done
    for line in (
        f"words    {len(learned.vectors):,} with vectors of width {learned.vectors.width}",
        f"text     {learned.vocabulary.total:,} words, {epochs} epochs",
        f"loss     {done.loss:.4f}",
        f"time     {done.seconds:.1f} s, {done.speed:,.0f} words per second",
        f"\n{out}",
    ):
        screen.print(line, highlight=False, markup=False)


def _check_place(out: Path) -> None:
    """Check the output path before the work starts."""
    from patchword.core.errors import UserError

    above = next(path for path in out.absolute().parents if path.exists())
    if out.is_dir():
        raise UserError(f"cannot write {out}", expected="the name of a file", got="it is a folder")
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UserError(f"cannot write {out}", expected="a folder you may write to", got=above)


def _learn(files: Sequence[Path], wanted: "WordVectorOptions", out: "Console") -> "Learned":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from patchword.recipes.vectors.words_training import learn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as bar:
        reading = bar.add_task("reading", total=None)
        learning = bar.add_task("training", total=None, start=False)

        def report(done: "Done") -> None:
            if not bar.tasks[learning].started:
                bar.start_task(learning)
            shown = f"training, {done.speed:,.0f} words per second, loss {done.loss:.3f}"
            bar.update(learning, description=shown, completed=done.words, total=done.total)

        return learn(files, wanted, lambda done, total: bar.update(reading, completed=done, total=total), report)


def near(
    file: File,
    word: Annotated[str, typer.Argument(metavar="WORD", help="A word that has a vector.")],
    count: Count = 10,
    as_json: Json = False,
) -> None:
    """Print the words with the highest cosine similarity to a word.

    Examples:

      patchword vectors near vectors.txt king -n 10
      patchword vectors near zoo:word-vectors king
    """
    from patchword.recipes.vectors.words import WordVectors

    _print(WordVectors.read(file).near(word, count), as_json)


def analogy(
    file: File,
    first: Annotated[str, typer.Argument(metavar="A", help="First word: A is to B as C is to ?")],
    second: Annotated[str, typer.Argument(metavar="B", help="Second word of the analogy.")],
    third: Annotated[str, typer.Argument(metavar="C", help="Third word; the words printed complete the analogy.")],
    count: Count = 10,
    as_json: Json = False,
) -> None:
    """Solve the analogy "A is to B as C is to ?": print the words nearest to B - A + C, without A, B and C.

    Examples:

      patchword vectors analogy vectors.txt man king woman
      patchword vectors analogy zoo:word-vectors france paris italy
    """
    from patchword.recipes.vectors.words import WordVectors

    _print(WordVectors.read(file).analogy(first, second, third, count), as_json)


def evaluate(
    file: File,
    analogies: Annotated[
        Path, typer.Argument(metavar="ANALOGIES", help="A file with four words per line: A is to B as C is to D.")
    ],
    as_json: Json = False,
) -> None:
    """Solve a file of analogies, and print the share of correct answers per section.

    The file has word2vec's format: `: NAME` begins a section. Questions with a word that has no vector are left out.

    Example:

      patchword vectors evaluate vectors.txt questions-words.txt
    """
    from patchword.recipes.vectors.analogies import read_analogies, solve, summed
    from patchword.recipes.vectors.words import WordVectors

    scores = solve(WordVectors.read(file), read_analogies(analogies))
    rows = [*scores, summed(scores)]
    if as_json:
        typer.echo(json.dumps([{**asdict(row), "accuracy": row.accuracy} for row in rows], indent=2))
        return
    for row in rows:
        left = f", {row.total - row.known} with unknown words" if row.known < row.total else ""
        typer.echo(f"{row.accuracy:7.2%}  {row.section}: {row.correct} of {row.known}{left}")


def _print(found: "Sequence[Neighbour]", as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([{"word": word, "cosine": round(value, 6)} for word, value in found], ensure_ascii=False))
        return
    for word, value in found:
        typer.echo(f"{value:.4f}  {word}")


app.command("train", help=help_of(train))(train)
app.command("near", help=help_of(near))(near)
app.command("analogy", help=help_of(analogy))(analogy)
app.command("evaluate", help=help_of(evaluate))(evaluate)
