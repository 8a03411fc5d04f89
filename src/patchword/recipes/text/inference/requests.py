"""Reads the inputs of a text task: texts, questions or sentences, typed, from files or from standard input."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchword.core.errors import UserError
from patchword.data.text.formats.conll import read_conll
from patchword.data.text.formats.squad import read_squad
from patchword.data.text.formats.text_io import lines_of, read_utf8
from patchword.recipes.text.inference.input import (
    PIPE,
    TABLES,
    Columns,
    TextInput,
    file_of,
    read_each,
    read_texts,
    whole,
)


@dataclass(frozen=True)
class TypedOptions:
    """Options given on the command line besides the inputs. pair: the second text, or a column of a table."""

    text: str = ""
    pair: str = ""
    question: str = ""


def text_inputs(columns: Columns, inputs: Sequence[str], words: TypedOptions) -> list[TextInput]:
    """Read texts, or pairs if the columns have a second one."""
    if words.pair and not columns.pair:
        raise UserError("this run reads single texts", expected="no --pair", got=words.pair)
    typed = [word for word in inputs if word != PIPE and file_of(word) is None]
    if not typed or not columns.pair:
        return list(read_each(inputs, columns))
    if len(inputs) > 1 or not words.pair.strip():
        example = 'patchword predict RUN "first text" --pair "second text"'
        raise UserError("this run reads pairs of texts", expected="one text and --pair", hint=f"e.g. {example}")
    return [replace(asked, pair=words.pair) for asked in read_texts(inputs)]


def question_inputs(columns: Columns, inputs: Sequence[str], words: TypedOptions) -> Iterator[TextInput]:
    if words.question:
        if len(inputs) > 1 or not words.question.strip():
            raise UserError("--question", expected="one question on one text", got=f"{len(inputs)} texts")
        yield replace(whole(inputs[0]), pair=words.question)
        return
    for word in inputs:
        path = file_of(word) if word != PIPE else None
        if path is not None and path.suffix.lower() in TABLES:
            yield from read_each([word], columns)
        elif path is not None and path.suffix.lower() == ".json":
            for found in read_squad(path, answers="left out"):
                yield TextInput(found.context, found.question, {"file": str(path), "id": found.id})
        else:
            expected = f'--question "...", or a file in SQuAD\'s form (.json), or a table ({" ".join(TABLES)})'
            raise UserError("a question is missing", expected=expected)


def sentence_inputs(columns: Columns, inputs: Sequence[str]) -> Iterator[TextInput]:
    """Read texts, or the words of a CoNLL file."""
    for word in inputs:
        path = file_of(word) if word != PIPE else None
        if path is None or path.suffix.lower() in (*TABLES, ".txt"):
            yield from read_each([word], columns)
        else:
            for line, sentence in _cut_words(path):
                yield TextInput(" ".join(sentence), place={"file": str(path), "line": line}, words=sentence)


def _cut_words(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the line and the words of each sentence; a file to be tagged may contain nothing but words."""
    lines = [line.strip() for line in lines_of(read_utf8(path))]
    if path.suffix.lower() == ".conllu" or any(len(line.split()) > 1 for line in lines):
        column = "form" if path.suffix.lower() == ".conllu" else None
        yield from ((sentence.line, sentence.words) for sentence in read_conll(path, column))
        return
    begun: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        if line:
            begun.append(line)
        elif begun:
            yield number - len(begun), tuple(begun)
            begun = []
    if not any(lines):
        raise UserError(f"{path} has no sentences", expected="one word per line, a blank line between sentences")
