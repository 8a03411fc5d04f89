"""What the tests of text tasks share: chosen vocabularies, the settings of a tiny model, small files of each kind."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchword.data.text.tokenizer import Tokenizer

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TINY_BERT = ("model=bert-tiny", "model.depth=1", "model.width=32", "model.heads=2", "model.hidden=64")
QUICK = (*TINY_BERT, "device=cpu", "warmup=0")


def vocabulary_of(words: Sequence[str], folder: Path, specials: Sequence[str] = SPECIALS) -> Tokenizer:
    """A tokenizer with exactly these entries, in this order behind the special ones; it lies in the folder."""
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
    """articles: a context and its questions, as SQuAD has them."""
    data = [
        {"title": f"article {number}", "paragraphs": [{"context": context, "qas": list(asked)}]}
        for number, (context, asked) in enumerate(articles)
    ]
    path.write_text(json.dumps({"data": data}), encoding="utf-8")
    return path


def asked(number: object, question: str, answer: str, start: int) -> dict[str, Any]:
    return {"id": str(number), "question": question, "answers": [{"text": answer, "answer_start": start}]}
