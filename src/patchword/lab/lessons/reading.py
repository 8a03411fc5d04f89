"""Reads lessons from Markdown files of a small, strict format. A mistake is an error with its file and line.

    ---
    title: Words as vectors
    about: A word is a list of numbers.
    ---

    ## Similar words are near
    view: #/embeddings?model=word-vectors

    Two sentences about the view. They may have *emphasis*, `code` and [links](#/cost) to other views.

    Try: what the reader does now.

The file is called NN-name.md: the number gives the order, the name is in addresses.
"""

import re
from collections.abc import Callable
from pathlib import Path

from patchword.core.errors import UserError
from patchword.lab.lessons.inline import read_spans
from patchword.lab.lessons.lesson import Lesson, Span, Step
from patchword.lab.lessons.views import EXAMPLE, Pages, check_view

OURS = Path(__file__).parent
MOST_LESSONS, MOST_STEPS, MOST_BYTES, MOST_CHARACTERS = 50, 30, 100_000, 600
NAME = re.compile(r"\d\d-([a-z0-9]+(?:-[a-z0-9]+)*)\.md")
TASK = "Try:"


def read_lessons(pages: Pages, folder: Path | None = None) -> tuple[Lesson, ...]:
    """Return the lessons of a folder, then those of patchword whose names it does not use. pages: of the lab."""
    own = _in_folder(folder, pages, own=True) if folder else ()
    taken = {lesson.name for lesson in own}
    return (*own, *(lesson for lesson in _in_folder(OURS, pages) if lesson.name not in taken))


def read_lesson(path: Path, pages: Pages, own: bool = False) -> Lesson:
    """Return the lesson of a file."""
    found = NAME.fullmatch(path.name)
    if found is None:
        expected = "two digits, a hyphen and a name of a-z, 0-9 and hyphens, e.g. 01-my-lesson.md"
        raise UserError(f"the lesson {path.name} has another name", expected=expected, got=path.name)
    try:
        content = path.read_bytes()
        if len(content) > MOST_BYTES:
            raise UserError(
                f"the lesson {path} is too long", expected=f"at most {MOST_BYTES:,} bytes", got=len(content)
            )
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the lesson {path}", expected="a text file in UTF-8", got=str(error)) from None
    return _Reader(path, text.splitlines(), pages).lesson(found[1], own)


def _in_folder(folder: Path, pages: Pages, own: bool = False) -> tuple[Lesson, ...]:
    if not folder.is_dir():
        raise UserError("there is no folder of lessons", expected="a folder with files such as 01-name.md", got=folder)
    paths = sorted(folder.glob("*.md"))
    if not paths or len(paths) > MOST_LESSONS:
        expected = f"1 to {MOST_LESSONS} files such as 01-name.md"
        raise UserError(f"the folder of lessons {folder}", expected=expected, got=len(paths))
    lessons = tuple(read_lesson(path, pages, own) for path in paths)
    names = [lesson.name for lesson in lessons]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(
            f"two lessons are called {twice}", expected="another name for one", got=f"{folder}/*-{twice}.md"
        )
    return lessons


class _Reader:
    """The lines of a file and where reading has come to."""

    def __init__(self, path: Path, lines: list[str], pages: Pages) -> None:
        self.path, self.lines, self.pages, self.at = path, [line.strip() for line in lines], pages, 0

    def lesson(self, name: str, own: bool) -> Lesson:
        self._expect("---", "--- on the first line, as before and after title and about")
        title, about = self._field("title"), self._field("about")
        self._expect("---", "--- after title and about")
        self._skip_empty()
        steps = []
        while self.at < len(self.lines):
            steps.append(self._step())
            self._skip_empty()
        if not 1 <= len(steps) <= MOST_STEPS:
            raise self._error(f"1 to {MOST_STEPS} steps, each with ## and its title", f"{len(steps)} steps")
        return Lesson(name, title, about, tuple(steps), own)

    def _step(self) -> Step:
        if not self.line.startswith("## "):
            raise self._error("a step: ## and its title")
        title = self._bounded(self.line.removeprefix("## ").strip())
        self.at += 1
        self._skip_empty()
        if not self.line.startswith("view:"):
            raise self._error(f"the address of the view, e.g. view: {EXAMPLE}")
        view = self._checked(self.line.removeprefix("view:").strip())
        self.at += 1
        self._skip_empty()
        text = self._paragraph("two sentences about the view", lambda line: line.startswith(TASK))
        self._skip_empty()
        if not self.line.startswith(TASK):
            raise self._error(f"one paragraph, then {TASK} and what the reader does")
        self.lines[self.at] = self.line.removeprefix(TASK).strip()
        task = self._paragraph(f"{TASK} and what the reader does", lambda line: False)
        return Step(title, view, text, task)

    def _paragraph(self, what: str, ends: Callable[[str], bool]) -> tuple[Span, ...]:
        """Return lines up to an empty one, a step or an end, joined."""
        first = self.at
        while self.line and not self.line.startswith("## ") and not ends(self.line):
            self.at += 1
        text = " ".join(self.lines[first : self.at])
        self.at, end = first, self.at
        if not text or text.startswith(("view:", "---")):
            raise self._error(what)
        found = read_spans(self._bounded(text), self._checked)
        self.at = end
        return found

    def _field(self, name: str) -> str:
        value = self.line.removeprefix(f"{name}:").strip()
        if not self.line.startswith(f"{name}:") or not value:
            raise self._error(f"{name}: and a text")
        value = self._bounded(value)
        self.at += 1
        return value

    def _expect(self, line: str, expected: str) -> None:
        if self.line != line:
            raise self._error(expected)
        self.at += 1

    def _bounded(self, text: str) -> str:
        if not 0 < len(text) <= MOST_CHARACTERS:
            raise self._error(f"a text of 1 to {MOST_CHARACTERS} characters", f"{len(text)} characters")
        return text

    def _checked(self, address: str) -> str:
        try:
            return check_view(address, self.pages)
        except UserError as error:
            raise self._error(str(error.expected), str(error.got), error.hint) from None

    @property
    def line(self) -> str:
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def _skip_empty(self) -> None:
        while self.at < len(self.lines) and not self.line:
            self.at += 1

    def _error(self, expected: str, got: str = "", hint: str = "") -> UserError:
        got = got or (repr(self.line[:80]) if self.at < len(self.lines) else "the end of the file")
        return UserError(f"lesson {self.path}, line {self.at + 1}", expected=expected, got=got, hint=hint)
