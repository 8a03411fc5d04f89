"""Word vectors in files, the words near a word, and the verb."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from patchword.core.errors import UserError
from patchword.data.text.formats.word2vec import read_vectors, write_vectors
from patchword.recipes.vectors.words import WordVectors


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


PLAIN = WordVectors(
    ("man", "woman", "king", "queen", "apple"),
    np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 3]], np.float32),
)


# Files


def test_what_is_written_is_read_again():
    words = ("über", "北京", "don't", "3")
    vectors = np.random.default_rng(0).standard_normal((4, 7)).astype(np.float32) * [[1e-8], [1], [1e8], [1 / 3]]
    write_vectors(Path("v.txt"), words, vectors.astype(np.float32))
    assert Path("v.txt").read_text(encoding="utf-8").startswith("4 7\nüber ")
    found = read_vectors(Path("v.txt"))
    assert found[0] == words
    assert found[1].dtype == np.float32
    assert np.array_equal(found[1], vectors.astype(np.float32))


def test_a_file_without_a_first_line_and_words_that_come_twice():
    Path("glove.txt").write_text("the 1 2.5\ncat -1 1e-3\nthe 9 9\n")
    words, vectors = read_vectors(Path("glove.txt"))
    assert words == ("the", "cat")
    assert vectors.tolist() == [[1, 2.5], [-1, np.float32(1e-3)]]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_binary_form(end):
    rows = {"cat": (1.5, -2.0, 32.0), "über": (0.0, 1.0, 2.0)}
    packed = (word.encode() + b" " + struct.pack("<3f", *row) + end for word, row in rows.items())
    Path("v.bin").write_bytes(b"2 3\n" + b"".join(packed))
    words, vectors = read_vectors(Path("v.bin"))
    assert words == tuple(rows)
    assert vectors.tolist() == [list(row) for row in rows.values()]
    Path("v.bin").write_bytes(Path("v.bin").read_bytes()[:-5])
    with pytest.raises(UserError, match=r"v.bin is not whole: expected 2 words, as its first line says, got 1"):
        read_vectors(Path("v.bin"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"2 2\na 1 2\nb 1 x\n", r"line 3: not a word vector: .*got could not convert string to float: 'x'"),
        (b"2 2\na 1 2\nb 1\n", r"line 3: wrong width: expected 2 numbers, got 1"),
        (b"a 1 2\nb 1 2\n\nc 1 2 3\n", r"line 4: wrong width: expected 2 numbers, got 3"),
        (b"3 2\na 1 2\nb 1 2\n", r"not whole: expected 3 words, as its first line says, got 2"),
        (b"2 2\na 1 2\nb\xff 1 2\n", r"line 3: not UTF-8: got byte 0xff"),
        (b"2 2\na 1 2\nb 1 nan\n", r"line 3: not a word vector: expected finite numbers"),
        (b"a 1 2\nword\n", r"line 2: not a word vector"),
        (b"", r"has no word vectors"),
    ],
)
def test_a_broken_file_is_named_with_its_line(content, message):
    Path("v.txt").write_bytes(content)
    with pytest.raises(UserError, match=rf"v\.txt.*{message}"):
        read_vectors(Path("v.txt"))


def test_a_word_that_cannot_be_written_leaves_no_file():
    with pytest.raises(UserError, match="a word without spaces, got 'new york'"):
        write_vectors(Path("v.txt"), ["new york"], np.ones((1, 2), np.float32))
    assert list(Path().iterdir()) == []
    with pytest.raises(UserError, match=r"cannot read nowhere.txt"):
        read_vectors(Path("nowhere.txt"))


# Words


def test_near_words_are_those_with_the_greatest_cosine():
    found = PLAIN.near("king", 2)
    assert [word for word, _ in found] == ["man", "queen"]
    assert found[0].cosine == pytest.approx(0.5**0.5)
    assert len(PLAIN.near("king", 99)) == 4


def test_an_analogy_leaves_its_own_words_out():
    found = PLAIN.analogy("man", "king", "woman", 9)
    assert found[0].word == "queen"
    assert {word for word, _ in found} == {"queen", "apple"}
    a, b, c, wanted = PLAIN.unit[[0, 2, 1, 3]]
    asked = b - a + c
    assert found[0].cosine == pytest.approx(float(asked @ wanted / np.linalg.norm(asked)))


def test_vectors_of_words():
    found = PLAIN.of(["Queen", "nowhere", "apple"])
    assert found.tolist() == [[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 3]]
    assert found.dtype == np.float32
    assert PLAIN.of([]).shape == (0, 4)
    assert "apple" in PLAIN
    assert PLAIN.width == 4


def test_a_word_that_is_not_there():
    with pytest.raises(UserError, match=r"no vector of 'quen'\ndid you mean 'queen'"):
        PLAIN.near("quen")
    with pytest.raises(UserError, match="did you mean 'king'"):
        PLAIN.analogy("man", "KING", "woman")
    for word in ("", "xyz"):
        with pytest.raises(UserError, match="no vector of"):
            PLAIN.near(word)


def test_words_and_vectors_must_agree():
    with pytest.raises(UserError, match="one per word"):
        WordVectors(("a", "b"), np.ones((3, 2), np.float32))
    with pytest.raises(UserError, match="unique words"):
        WordVectors(("a", "a"), np.ones((2, 2), np.float32))


# The verb


def test_train_near_analogy(command):
    lines = [f"the {one} and the {other} sleep" for one in ("cat", "dog") for other in ("cat", "dog", "cow")] * 20
    Path("text.txt").write_text("\n".join(lines))
    small = ("--width", 8, "--epochs", 2)
    code, output, complaint = command("vectors", "train", "text.txt", "--out", "new/v.txt", *small)
    assert (code, complaint) == (0, "")
    assert "6 with vectors of width 8" in output
    assert "words per second" in output
    assert Path("new/v.txt").read_text().startswith("6 8\nthe ")
    code, output, _ = command("vectors", "near", "new/v.txt", "cat", "-n", 3, "--json")
    assert (code, len(json.loads(output))) == (0, 3)
    code, output, _ = command("vectors", "analogy", "new/v.txt", "cat", "dog", "sleep")
    assert (code, len(output.splitlines())) == (0, 3)
    first = Path("new/v.txt").read_bytes()
    command("vectors", "train", "text.txt", "--out", "again.txt", *small)
    assert Path("again.txt").read_bytes() == first
    command("vectors", "train", "text.txt", "--out", "cbow.txt", "--kind", "cbow", *small)
    assert Path("cbow.txt").read_bytes() != first


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "text.txt", "--out", "v.txt", "--kind", "glove"], "kind: expected skip-gram or cbow, got glove"),
        (["train", "text.txt", "--out", "."], "it is a folder"),
        (["train", "nowhere", "--out", "v.txt"], "there is no file or folder nowhere"),
        (["train", "text.txt", "--out", "v.txt"], "too little text"),
        (["near", "plain.txt", "kin"], "did you mean 'king'"),
        (["near", "text.txt", "a"], "text.txt, line 1"),
    ],
)
def test_mistakes_are_told_in_a_line_and_write_nothing(command, words, message):
    Path("text.txt").write_text("one two three")
    PLAIN.save(Path("plain.txt"))
    code, _, complaint = command("vectors", *words)
    assert (code, complaint.count("error:")) == (2, 1)
    assert message in complaint
    assert {path.name for path in Path().iterdir()} == {"text.txt", "plain.txt"}
