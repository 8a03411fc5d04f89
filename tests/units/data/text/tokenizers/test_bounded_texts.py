"""Very long texts and hostile tokenizers: work is bounded, and what is refused is named."""

import json

import numpy as np
import pytest

from patchword.core.errors import UserError
from patchword.data.text.batching.assembly import Limit, sentences
from patchword.data.text.tokenizers import encoding
from patchword.data.text.tokenizers.tokenizer import Tokenizer

BASE = {
    "version": "1.0",
    **dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder")),
    "added_tokens": [],
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "cat": 1, "mat": 2}, "unk_token": "[UNK]"},
}


def tokenizer(folder, **changes):
    (folder / "tokenizer.json").write_text(json.dumps(BASE | changes))
    return Tokenizer.read(folder)


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(encoding, "CHARACTERS", 1_000)
    monkeypatch.setattr(encoding, "_PART", 100)
    monkeypatch.setattr(encoding.split_text, "__defaults__", (100,))


def replacement(content, pattern):
    return {"type": "Replace", "pattern": pattern, "content": content}


@pytest.mark.usefixtures("small_limits")
def test_a_truncated_text_is_read_no_further_than_needed(tmp_path, monkeypatch):
    found = tokenizer(tmp_path)
    long, short = "cat mat " * 1000, "mat cat"
    whole = found.ids_of([long])[0]
    read = found.ids_of([short, long], enough=60)
    assert np.array_equal(read[0], [2, 1])
    assert 60 <= len(read[1]) < 200
    assert np.array_equal(read[1], whole[: len(read[1])])
    assert len(found.ids_of([long], enough=10_000)[0]) == 2000
    examples = sentences(found, "a", [long, short], None, Limit(50))
    assert examples.shortened == 1
    monkeypatch.setattr(encoding, "_PART", 10**6)
    before = sentences(found, "a", [long, short], [short, long], Limit(50))
    monkeypatch.setattr(encoding, "_PART", 100)
    after = sentences(found, "a", [long, short], [short, long], Limit(50))
    assert (before.shortened, after.shortened) == (2, 2)
    assert np.array_equal(before.ids.values, after.ids.values)


@pytest.mark.usefixtures("small_limits")
def test_a_text_that_is_read_whole_has_a_limit(tmp_path):
    found = tokenizer(tmp_path)
    message = r"too long to be read whole: expected at most 1,000 characters, got 4,000\n.*PATCHWORD_CHARACTERS=4000"
    with pytest.raises(UserError, match=message):
        found.encode(["cat " * 1000])
    with pytest.raises(UserError, match=message):
        sentences(found, "a", ["cat " * 1000], None, Limit(50, stride=20))
    with pytest.raises(UserError, match="no space for too many characters"):
        found.ids_of(["c" * 1001], enough=50)
    assert len(found.encode(["cat " * 250])[0]) == 250


def test_a_regular_expression_that_gives_up_is_an_error_of_the_tokenizer(tmp_path):
    pattern = {"Regex": "(((((a+)+)+)+)+)+$"}
    found = tokenizer(
        tmp_path, pre_tokenizer={"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    )
    assert len(found.ids_of(["cat"])[0]) == 1
    for call in (found.encode, found.ids_of):
        with pytest.raises(UserError, match="the tokenizer cannot split this text: got "):
            call(["a" * 40 + "!"])


@pytest.mark.parametrize("pattern", [{"String": "a"}, {"Regex": "a"}])
def test_replacements_that_blow_a_text_up_are_refused(tmp_path, pattern):
    nine = {"type": "Sequence", "normalizers": [replacement("a" * 10, pattern)] * 9}
    with pytest.raises(UserError, match=r"can make a text [\d,]+ times longer: expected at most 100 times"):
        tokenizer(tmp_path, normalizer={"type": "Sequence", "normalizers": [nine]})


def test_usual_replacements_are_taken(tmp_path):
    usual = [
        replacement("\u2581", {"String": " "}),
        replacement('"', {"String": "``"}),
        replacement(" ", {"Regex": " {2,}"}),
    ]
    assert tokenizer(tmp_path, normalizer={"type": "Sequence", "normalizers": usual}).vocabulary == 3
