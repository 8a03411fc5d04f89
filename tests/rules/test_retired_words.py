"""tools/retired_words.py: words that the project no longer uses do not come back."""

from collections import Counter

import pytest

from support.source_code import load_tool


@pytest.fixture(scope="module")
def words():
    return load_tool("retired_words")


def test_no_retired_word_is_used(words):
    found = words.search_all()
    counts = Counter(f"{one.path}: {one.word}" for one in found)
    assert not found, f"{len(found)} retired words; python tools/retired_words.py --lines shows them: {dict(counts)}"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("src/a.py", "told = 1", ["told"]),
        ("src/a.py", "def was_told_once(): ...", ["told"]),
        ("src/a.py", "class WordsTold: ...", ["told"]),
        ("src/a.py", "untold = 1", []),
        ("src/a.py", "x = 1  # Nobody is told.", ["nobody", "told"]),
        ("src/a.py", '"""Draw a\npicture."""', ["pictures?"]),
        ("src/a.py", "f(rows=3)\nrows = 3\nrows == 3", ["(?<!_)rows="]),
        ("src/a.py", "f(rows=rows, short_rows=3)", ["(?<!_)rows="]),
        ("src/patchword/weights/names/a.py", "Layout(rows=found)", []),
        ("src/a.py", "x = Everything()  # Everything is read.", ["Everything"]),
        ("src/a.py", "self.entrance = stem", ["entrances?"]),
        ("docs/a.md", "It learns. `Rows` of a matrix: rows=3.", ["Rows"]),
        ("docs/a.md", "A race condition, no race.", ["races?(?! conditions?)"]),
    ],
)
def test_what_is_found(words, path, text, expected):
    assert sorted(one.word for one in words.search(path, text)) == sorted(expected)
