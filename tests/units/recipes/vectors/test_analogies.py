"""Word vectors are evaluated on analogies: A is to B as C is to D."""

import json

import numpy as np
import pytest

from patchword.core.errors import UserError
from patchword.recipes.vectors.analogies import read_analogies, solve, summed
from patchword.recipes.vectors.words import WordVectors

WORDS = ("man", "woman", "king", "queen", "boy", "girl", "noise")
ROWS = [[1, 0, 0], [1, 1, 0], [1, 0, 2], [1, 1, 2], [2, 0, 0.5], [2, 1, 0.5], [-1, -1, -1]]
QUESTIONS = """: royal
man woman king queen
man woman king noise
: young
man woman boy girl
man woman boy unseen

"""


@pytest.fixture
def vectors():
    return WordVectors(WORDS, np.array(ROWS, np.float32))


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text(QUESTIONS)
    return path


def test_questions_are_read_by_section(questions):
    found = read_analogies(questions)
    assert {name: len(rows) for name, rows in found.items()} == {"royal": 2, "young": 2}
    assert found["royal"][0] == ("man", "woman", "king", "queen")


def test_lines_before_a_section_belong_to_the_file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("a b c d\n")
    assert list(read_analogies(path)) == ["mine"]


def test_answers_agree_with_the_analogies_of_single_words(vectors, questions):
    for section in solve(vectors, read_analogies(questions)):
        rows = [one for one in read_analogies(questions)[section.section] if all(word in vectors for word in one)]
        correct = sum(vectors.analogy(*one[:3], count=1)[0].word == one[3] for one in rows)
        assert (section.correct, section.known) == (correct, len(rows))
    total = summed(solve(vectors, read_analogies(questions)))
    assert (total.correct, total.known, total.total) == (2, 3, 4)
    assert total.accuracy == pytest.approx(2 / 3)


def test_unknown_words_only_are_no_division_by_zero(vectors):
    (score,) = solve(vectors, {"none": [("a", "b", "c", "d")]})
    assert (score.known, score.accuracy) == (0, 0.0)


@pytest.mark.parametrize("text", ["", "a b c\n", ": only a name\n"])
def test_a_file_that_is_none(tmp_path, text):
    path = tmp_path / "wrong.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=r"wrong\.txt"):
        read_analogies(path)


def test_the_verb_prints_each_section(vectors, questions, tmp_path, command):
    vectors.save(tmp_path / "vectors.txt")
    code, printed, _ = command("vectors", "evaluate", tmp_path / "vectors.txt", questions)
    assert code == 0
    assert "royal: 1 of 2" in printed
    assert "young: 1 of 1, 1 with unknown words" in printed
    _, printed, _ = command("vectors", "evaluate", tmp_path / "vectors.txt", questions, "--json")
    assert json.loads(printed)[-1]["section"] == "all"
