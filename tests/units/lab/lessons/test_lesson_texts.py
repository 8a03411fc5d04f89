"""The lessons of patchword: their order, their length, and views that exist."""

import json
import re
from pathlib import Path

import pytest

from patchword.lab.lessons.lesson import Lesson, Span
from patchword.lab.lessons.reading import read_lessons
from patchword.lab.lessons.views import Pages

SOURCES = Path(__file__).parents[4] / "web" / "src"
ABOUT = json.loads((SOURCES / "pages.json").read_text(encoding="utf-8"))
LINES = dict(re.findall(r"id: '(\w+)'.*import\('\./(pages/\w+\.svelte)'\)", (SOURCES / "pages.ts").read_text()))
IMPORT = re.compile(r"""from '(\.[^']+)'|import\('(\.[^']+)'\)""")


@pytest.fixture(scope="module")
def lessons(pages: Pages) -> tuple[Lesson, ...]:
    return read_lessons(pages)


def plain(spans: tuple[Span, ...]) -> str:
    return "".join(span.text for span in spans)


def test_there_are_nine_in_the_order_of_the_lectures(lessons: tuple[Lesson, ...]) -> None:
    assert [lesson.title for lesson in lessons] == [
        *("Words as vectors", "Attention in translation", "The Transformer", "BERT", "Patches as words"),
        *("DeiT's teacher", "Windows", "CSWin and Pale", "Why it works"),
    ]


def test_each_step_has_two_sentences_and_a_task(lessons: tuple[Lesson, ...]) -> None:
    for lesson in lessons:
        assert 4 <= len(lesson.steps) <= 7, lesson.name
        for step in lesson.steps:
            text = plain(step.text)
            assert len(re.findall(r"[.!?](?=\s|$)", text)) == 2, text
            assert len(text) <= 300, text
            assert len(plain(step.task)) <= 160, step.task


def test_each_view_is_on_a_page_of_the_lab(lessons: tuple[Lesson, ...]) -> None:
    named = {step.view.removeprefix("#/").partition("?")[0] for lesson in lessons for step in lesson.steps}
    assert named <= LINES.keys()


def sources_of(page: str) -> str:
    """The text of a page and of all that it imports."""
    found, waiting = {}, [SOURCES / LINES[page]]
    while waiting:
        path = waiting.pop()
        candidates = [path, *(path.with_name(f"{path.name}{end}") for end in (".ts", ".svelte.ts"))]
        file = next((one for one in candidates if one.is_file()), None)
        if file is None or file.name == "pages.json" or file in found:
            continue
        found[file] = file.read_text(encoding="utf-8")
        waiting += [(file.parent / (first or second)).resolve() for first, second in IMPORT.findall(found[file])]
    return "\n".join(found.values())


@pytest.mark.parametrize("page", [one["id"] for one in ABOUT])
def test_the_fields_of_a_page_are_in_its_source(page: str) -> None:
    text = sources_of(page)
    fields = next(one["fields"] for one in ABOUT if one["id"] == page)
    assert [field for field in fields if not re.search(rf"(?<![\w-]){field}(?![\w-])", text)] == []


def test_every_page_has_its_line() -> None:
    assert {one["id"] for one in ABOUT} == LINES.keys()
