"""Shared helpers of the tests of text tasks: small vocabularies, settings of a tiny model, small files per format."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes import train as recipe_run
from patchword.recipes.run import Run
from support.material import differing, everything_below

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TINY_BERT = ("model=bert-tiny", "model.depth=1", "model.width=32", "model.heads=2", "model.hidden=64")
QUICK = (*TINY_BERT, "device=cpu", "warmup=0")


def vocabulary_of(words: Sequence[str], folder: Path, specials: Sequence[str] = SPECIALS) -> Tokenizer:
    """Write a tokenizer with exactly these entries after the special tokens to the folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*specials, *words]) + "\n", encoding="utf-8")
    return Tokenizer.read(folder)


def write_table(path: Path, rows: Sequence[Sequence[object]], header: Sequence[str] = ("text", "label")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def write_conll(path: Path, sentences: Sequence[Sequence[tuple[str, str]]]) -> Path:
    blocks = ("\n".join(f"{word} {tag}" for word, tag in sentence) for sentence in sentences)
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return path


def write_questions(path: Path, articles: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> Path:
    """Write a SQuAD file. articles: contexts and their questions."""
    data = [
        {"title": f"article {number}", "paragraphs": [{"context": context, "qas": list(asked)}]}
        for number, (context, asked) in enumerate(articles)
    ]
    path.write_text(json.dumps({"data": data}), encoding="utf-8")
    return path


def asked(number: object, question: str, answer: str, start: int) -> dict[str, Any]:
    return {"id": str(number), "question": question, "answers": [{"text": answer, "answer_start": start}]}


def refusal(command: Callable[..., tuple[int, str, str]], *words: object) -> str:
    """Assert that the command fails with one message and exit code 2 and writes nothing; return the message."""
    assert not Path("pyproject.toml").exists(), "a test of what is written works in a folder of its own"
    before = _contents()
    code, output, complaint = command(*words)
    assert code == 2, (output, complaint)
    assert complaint.startswith("error: ")
    assert complaint.count("error:") == 1
    assert "Traceback" not in output + complaint
    assert _contents() == before
    return " ".join(complaint.split())


def _contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() if path.is_file() else b"" for path in everything_below(Path.cwd())}


def without_seconds(folder: Path) -> list[dict[str, float]]:
    return [{key: value for key, value in record.items() if key != "seconds"} for record in Run(folder).metrics()]


def assert_the_same_run(folder: Path, whole: Path) -> None:
    """Assert that weights, the last checkpoint, metrics and all other files are bitwise equal."""
    assert differing(folder / "model.safetensors", whole / "model.safetensors") == []
    last = sorted((whole / "checkpoints").iterdir())[-1].name
    tensors = Path("checkpoints") / last / "tensors.safetensors"
    assert differing(folder / tensors, whole / tensors) == []
    states = [json.loads((run / "checkpoints" / last / "state.json").read_text()) for run in (folder, whole)]
    assert {**states[0], "seconds": 0} == {**states[1], "seconds": 0}
    assert without_seconds(folder) == without_seconds(whole)
    for file in ("recipe.yaml", "config.json", "tokenizer.json", "vocab.txt", "data.json"):
        assert (folder / file).read_bytes() == (whole / file).read_bytes(), file


def stop_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Make the next run stop after this many steps; 0 means never."""

    @contextmanager
    def counting() -> Iterator[object]:
        taken = iter(range(1, 10_000))
        yield lambda: next(taken) == steps

    monkeypatch.setattr(recipe_run, "interruptible", counting)
