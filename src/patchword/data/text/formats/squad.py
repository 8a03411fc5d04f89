"""Question answering data: SQuAD 1.1 and 2.0, and CMRC 2018, DRCD and XQuAD, which use the same format."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from patchword.core.errors import UserError
from patchword.data.faults import attempt, report_fault
from patchword.data.text.formats.text_io import check_characters, parse_json, read_utf8, require_file

_KINDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    list: "a list",
    dict: "an object",
    bool: "true or false",
}


@dataclass(frozen=True)
class Answer:
    text: str
    start: int | None  # first character in the context; None: not found, used for scoring only


@dataclass(frozen=True)
class Question:
    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    article: str
    impossible: bool  # the context does not answer it (SQuAD 2.0)


@dataclass(frozen=True)
class _Node:
    """A value of the JSON file with its location, which error messages name."""

    path: Path
    place: str
    value: Any

    def field(self, name: str, kind: type, default: Any = None) -> "_Node":
        place = f"{self.place}.{name}".removeprefix(".")
        if not isinstance(self.value, dict) or (name not in self.value and default is None):
            raise UserError(f"{self.path}: {place} is missing", expected=_KINDS[kind])
        value = self.value.get(name, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise UserError(f"{self.path}: {place}", expected=_KINDS[kind], got=repr(value)[:80])
        return _Node(self.path, place, value)

    def items(self, name: str) -> Iterator["_Node"]:
        listed = self.field(name, list)
        return (_Node(self.path, f"{listed.place}[{index}]", value) for index, value in enumerate(listed.value))

    def text(self, name: str) -> str:
        node = self.field(name, str)
        return check_characters(node.value, f"{self.path}: {node.place}")


def read_squad(path: Path, repair: bool = False, answers: Literal["needed", "left out"] = "needed") -> list[Question]:
    """Read all questions in the order of the file.

    repair: an answer that is not at its start but occurs once elsewhere gets that start; one that does not occur, or
    occurs several times, keeps its text for scoring and has no start; a question may be blank. Without repair these are
    errors. answers: "left out" reads only the questions, for prediction.
    """
    require_file(path, (".json",))
    root = _Node(path, "", parse_json(read_utf8(path), path))
    questions: list[Question] = []
    seen: dict[str, str] = {}
    for article in root.items("data"):
        title = (
            article.field("title", str, default="").value or article.place
        )  # an article without a title is identified by its position
        for paragraph in article.items("paragraphs"):
            context = paragraph.text("context")
            for node in paragraph.items("qas"):
                question = attempt(_question, node, title, context, repair, answers == "needed")
                if question is None:
                    continue
                if question.id in seen:
                    where = f"{path}: {node.place}.id is a duplicate of {seen[question.id]}"
                    report_fault(UserError(where, got=repr(question.id)), "a duplicate id")
                seen[question.id] = node.place
                questions.append(question)
    if not questions:
        raise UserError(f"{path} has no questions", expected="data[].paragraphs[].qas[]")
    return questions


def _question(node: _Node, title: str, context: str, repair: bool, answered: bool) -> Question:
    id, words = node.text("id"), node.text("question")
    if not words.strip() and not repair:
        raise UserError(f"{node.path}: {node.place}.question is empty", got=f"id {id!r}")
    if not answered:
        return Question(id, words, context, (), title, False)
    impossible = node.field("is_impossible", bool, default=False).value
    answers = tuple(_answer(item, context, repair) for item in node.items("answers"))
    if bool(answers) == impossible:
        expected = "no answers, since is_impossible is true" if impossible else "an answer, or is_impossible: true"
        raise UserError(f"{node.path}: {node.place}.answers", expected=expected, got=len(answers))
    return Question(id, words, context, answers, title, impossible)


def _answer(node: _Node, context: str, repair: bool) -> Answer:
    text, start = node.text("text"), node.field("answer_start", int).value
    if not text.strip():
        raise UserError(f"{node.path}: {node.place}.text is empty")
    if start >= 0 and context.startswith(text, start):
        return Answer(text, start)
    places = [found.start() for found in re.finditer(f"(?={re.escape(text)})", context)]
    if repair:
        return Answer(text, _repaired_start(context, start, places))
    at = ", ".join(map(str, places[:5])) + (", ..." if len(places) > 5 else "")
    raise UserError(
        f"{node.path}: {node.place}.text is not in its context at answer_start {start}",
        expected=repr(text[:80]),
        got=repr(context[start : start + len(text)][:80]) if start >= 0 else None,
        hint=(f"it is at {at}" if places else "it is not in the context") + "; repair=true reads the file anyway",
    )


def _repaired_start(context: str, start: int, places: list[int]) -> int | None:
    """Find the start of a misplaced answer. Some files count UTF-16 units; else a unique occurrence is taken."""
    for place in places:
        if len(context[:place].encode("utf-16-le")) == 2 * start:
            return place
    return places[0] if len(places) == 1 else None
