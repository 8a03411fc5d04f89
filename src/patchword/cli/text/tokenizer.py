"""tokenizer: trains a tokenizer on text, and shows how a text is tokenized."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from patchword.cli.common import Json, console
from patchword.cli.help import help_of

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.core.errors import UserError
    from patchword.data.text.tokenizers.tokenizer import Tokenizer
    from patchword.data.text.tokenizers.vocabulary_config import VocabularyConfig
    from patchword.data.text.tokenizers.vocabulary_training import Casing, TrainedVocabulary, VocabularyKind

_EXAMPLE = 100  # characters

app = typer.Typer(help="Train a tokenizer on your own text, or see how it splits a text.", no_args_is_help=True)


def train(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Text or .jsonl files (field text), or folders of them.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Output folder of the tokenizer.")],
    kind: Annotated[
        str,
        typer.Option(
            "--kind", metavar="KIND", help="wordpiece (BERT), bytes (RoBERTa, GPT-2), unigram (ALBERT), news (Grover)."
        ),
    ] = "wordpiece",
    vocabulary: Annotated[int, typer.Option("--vocabulary", min=1, help="Maximum vocabulary size.")] = 30_000,
    cased: Annotated[
        bool | None,
        typer.Option(
            "--cased/--uncased",
            help="Keep capitals and accents, or lowercase and strip accents; bytes always keep them.",
            show_default="uncased",
        ),
    ] = None,
    least: Annotated[
        int | None,
        typer.Option(
            "--min-frequency",
            min=1,
            metavar="N",
            help="Minimum frequency of a piece; not for unigram.",
            show_default="2",
        ),
    ] = None,
) -> None:
    """Train a tokenizer. The same text always gives the same vocabulary.

    wordpiece makes each Chinese character a word. bytes has no unknown tokens, and a word includes the space before it.
    Hugging Face's libraries can read the folder, too. A folder with another tokenizer is never overwritten.

    Examples:

      patchword tokenizer train books/*.txt --out vocabulary
      patchword tokenizer train wiki.jsonl --cased --vocabulary 50000 --out cased
      patchword tokenizer train wiki.jsonl --kind bytes --out bytes
    """
    from patchword.data.text.tokenizers.tokenizer import Tokenizer
    from patchword.data.text.tokenizers.vocabulary_config import VocabularyConfig

    casing: Casing | None = None if cased is None else "cased" if cased else "uncased"
    wanted = VocabularyConfig(_kind(kind), vocabulary, casing, least)
    before = _in_place(out, vocabulary, casing)
    screen, start = console(), time.perf_counter()
    learned = _learn(files, wanted, screen)
    tokenizer = Tokenizer(wanted.library(learned))
    if before is None:
        tokenizer.save(out)
    elif tokenizer.fingerprint() != before.fingerprint():
        raise _taken(out, "another tokenizer")
    _print(screen, tokenizer, learned, time.perf_counter() - start, next(wanted.texts(files), "")[:_EXAMPLE])
    note = " has this tokenizer already; nothing was written" if before else ""
    screen.print(f"\n{out}{note}", highlight=False, markup=False)


def _kind(name: str) -> "VocabularyKind":
    from typing import get_args

    from patchword.core.errors import UserError
    from patchword.data.text.tokenizers.vocabulary_training import VocabularyKind

    for known in get_args(VocabularyKind):
        if known == name:
            return cast("VocabularyKind", known)
    raise UserError("unknown --kind", expected=", ".join(get_args(VocabularyKind)), got=name)


def _in_place(out: Path, vocabulary: int, casing: "Casing | None") -> "Tokenizer | None":
    """Check the output folder before the work starts; return a tokenizer that this command may have written there."""
    from patchword.core.errors import UserError
    from patchword.data.text.tokenizers.loading import NAMES
    from patchword.data.text.tokenizers.tokenizer import Tokenizer

    present = next((name for name in NAMES if (out / name).exists()), None)
    if present:
        try:
            before = Tokenizer.read(out)
        except UserError:
            raise _taken(out, present) from None
        if before.vocabulary > vocabulary or casing not in (None, before.casing):
            raise _taken(out, f"{before.vocabulary:,} entries, {before.casing}")
        return before
    above = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UserError(f"cannot write into {out}", expected="a folder you may write to", got=above)
    return None


def _taken(out: Path, got: str) -> "UserError":
    from patchword.core.errors import UserError

    return UserError(f"{out} already holds a tokenizer", got=got, hint="choose another folder, or remove it")


def _learn(files: Sequence[Path], wanted: "VocabularyConfig", out: "Console") -> "TrainedVocabulary":
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def progress(done: int, total: int) -> None:
            stage = "reading" if done < total else "choosing pieces" if wanted.kind == "unigram" else "merging pieces"
            bar.update(task, description=stage, completed=done, total=total)

        return wanted.from_files(files, progress)


def _print(out: "Console", tokenizer: "Tokenizer", learned: "TrainedVocabulary", seconds: float, example: str) -> None:
    pieces = " ".join(tokenizer.tokens(tokenizer.encode([example])[0].ids))
    for line in (
        f"vocabulary  {tokenizer.vocabulary:,} entries, {tokenizer.casing}",
        f"text        {learned.characters:,} characters, {learned.words:,} different words",
        f"unknown     {learned.unknown / learned.characters:.4%} of the characters are too rare for the vocabulary",
        f"time        {seconds:.1f} s",
        f"example     {example}",
        f"            {pieces}",
    ):
        out.print(line, highlight=False, markup=False)


def show(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A tokenizer's folder, tokenizer.json, vocab.txt or vocab.json.")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to tokenize.")],
    as_json: Json = False,
) -> None:
    """Print the tokens of a text, their ids, and the characters that each covers.

    Example:

      patchword tokenizer show vocabulary "The cat sat on the mat."
    """
    import json

    from rich.table import Table
    from rich.text import Text

    from patchword.data.text.tokenizers.tokenizer import Tokenizer

    tokenizer = Tokenizer.read(folder)
    found = tokenizer.encode([text])[0]
    columns = (array.tolist() for array in (found.ids, found.starts, found.ends))
    rows = list(zip(tokenizer.tokens(found.ids), *columns, strict=True))
    if as_json:
        fields = ("piece", "id", "start", "end")
        typer.echo(json.dumps([dict(zip(fields, row, strict=True)) for row in rows], ensure_ascii=False))
        return
    table = Table("piece", "id", "from", "to", "text")
    for piece, number, start, end in rows:
        table.add_row(Text(piece), str(number), str(start), str(end), Text(text[start:end]))
    out = console()
    out.print(table)
    size = f"{tokenizer.vocabulary:,} entries, {tokenizer.casing}"
    out.print(f"{len(rows)} pieces for {len(text)} characters; {size}", highlight=False)


app.command("train", help=help_of(train))(train)
app.command("show", help=help_of(show))(show)
