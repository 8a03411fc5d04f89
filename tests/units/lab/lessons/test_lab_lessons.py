"""The format of lessons: what is read, and that a mistake is named with its file and line."""

import pytest

from patchword.core.errors import UserError
from patchword.lab.lessons.lesson import Span
from patchword.lab.lessons.reading import MOST_CHARACTERS, OURS, read_lesson, read_lessons
from support.lab.page import caller

PAGES = {"cost": ("model", "depth"), "draw": ("layer",)}
HEAD = "---\ntitle: A title\nabout: One line: short.\n---\n"
STEP = """
## Deeper
view: #/cost?model=vit-exercise&depth=8

First sentence with *stress*, **more**, `code` and [a view](#/draw?layer=2).
A second one: 2 * 3 * 4, [CLS], <b>no HTML</b>.

Try: move a slider,
then look.
"""


def written(folder, text, name="01-one.md"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_lesson_is_read(tmp_path):
    lesson = read_lesson(written(tmp_path, HEAD + STEP + STEP), PAGES)
    assert (lesson.name, lesson.title, lesson.about, len(lesson.steps)) == ("one", "A title", "One line: short.", 2)
    step = lesson.steps[0]
    assert (step.title, step.view) == ("Deeper", "#/cost?model=vit-exercise&depth=8")
    assert step.text == (
        Span("text", "First sentence with "),
        Span("emphasis", "stress"),
        Span("text", ", "),
        Span("strong", "more"),
        Span("text", ", "),
        Span("code", "code"),
        Span("text", " and "),
        Span("link", "a view", "#/draw?layer=2"),
        Span("text", ". A second one: 2 * 3 * 4, [CLS], <b>no HTML</b>."),
    )
    assert step.task == (Span("text", "move a slider, then look."),)


@pytest.mark.parametrize(
    ("text", "line", "expected", "got"),
    [
        ("", 1, "--- on the first line", "the end of the file"),
        (STEP, 1, "--- on the first line", "''"),
        ("---\nabout: x\n---\n", 2, "title: and a text", "'about: x'"),
        ("---\ntitle: x\nabout:\n---\n", 3, "about: and a text", "'about:'"),
        (HEAD.replace("---\n", "", 1), 1, "--- on the first line", "'title: A title'"),
        (HEAD, 5, "1 to 30 steps", "0 steps"),
        (HEAD + "\nA text.\n", 6, "## and its title", "'A text.'"),
        (HEAD + STEP.replace("view:", "address:"), 7, "view: #/cost", "address: #/cost"),
        (HEAD + STEP.replace("#/cost?", "https://example.org/?"), 7, "inside the lab", "https://example.org/"),
        (HEAD + STEP.replace("#/cost", "#/price"), 7, "a page of the lab", "price"),
        (HEAD + STEP.replace("depth=8", "deep=8"), 7, "model, depth", "deep"),
        (HEAD + STEP.replace("depth=8", "lesson=one.2"), 7, "model, depth", "lesson"),
        (HEAD + STEP.replace("depth=8", "model=x"), 7, "each field of the page cost once", "model"),
        (HEAD + STEP.replace("#/draw", "http://example.org/"), 9, "inside the lab", "http://example.org/"),
        (HEAD + STEP.replace("#/draw", "javascript:alert`1`"), 9, "inside the lab", "javascript"),
        (HEAD + STEP.replace("Try:", "Next:"), 12, "Try: and what the reader does", "Next: move"),
        (HEAD + STEP.replace("Try:", "Try:\n\n"), 12, "Try: and what the reader does", "''"),
        (HEAD + STEP + "\nMore.\n", 15, "## and its title", "'More.'"),
        (HEAD + STEP.replace("code", "c" * MOST_CHARACTERS), 9, "1 to 600 characters", "characters"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path, text, line, expected, got):
    with pytest.raises(UserError) as error:
        read_lesson(written(tmp_path, text), PAGES)
    assert error.value.what == f"lesson {tmp_path / '01-one.md'}, line {line}"
    assert expected in error.value.expected
    assert got in error.value.got


@pytest.mark.parametrize("name", ["one.md", "1-one.md", "01-One.md", "01-.md", "01-a_b.md"])
def test_a_file_has_a_number_and_a_name(tmp_path, name):
    with pytest.raises(UserError, match=r"01-my-lesson\.md"):
        read_lesson(written(tmp_path, HEAD + STEP, name), PAGES)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"-" * 100_001])
def test_what_is_not_a_short_text_is_refused(tmp_path, content):
    (tmp_path / "01-one.md").write_bytes(content)
    with pytest.raises(UserError, match=r"01-one\.md"):
        read_lesson(tmp_path / "01-one.md", PAGES)


def test_a_folder_adds_lessons_and_replaces_one(tmp_path, pages):
    step = STEP.replace("/draw?layer=2", "/draw")
    ours = read_lessons(pages)
    written(tmp_path, HEAD + step, "05-mine.md")
    written(tmp_path, HEAD + step, f"07-{ours[-1].name}.md")
    found = read_lessons(pages, tmp_path)
    assert [lesson.name for lesson in found[:2]] == ["mine", ours[-1].name]
    assert [lesson.own for lesson in found] == [True, True] + [False] * (len(ours) - 1)
    assert [lesson.name for lesson in found[2:]] == [one.name for one in ours[:-1]]


def test_a_folder_must_have_lessons_with_different_names(tmp_path):
    with pytest.raises(UserError, match="no folder of lessons"):
        read_lessons(PAGES, tmp_path / "nothing")
    with pytest.raises(UserError, match="1 to 50 files"):
        read_lessons(PAGES, tmp_path)
    for name in ("01-one.md", "02-one.md"):
        written(tmp_path, HEAD + STEP, name)
    with pytest.raises(UserError, match="two lessons are called one"):
        read_lessons(PAGES, tmp_path)


def test_the_route_lists_the_lessons(page, models, pages):
    call = caller(page, models, read_lessons(pages))
    found = call("/api/lessons").json()["lessons"]
    assert len(found) == len(list(OURS.glob("*.md")))
    assert found[0].keys() == {"name", "title", "about", "steps", "own"}
    assert found[0]["steps"][0].keys() == {"title", "view", "text", "task"}
    assert found[0]["steps"][0]["text"][0].keys() == {"kind", "text", "to"}
    assert call("/api/lessons", headers={"cookie": None}).status == 401
