"""Units of a text that are masked as wholes: found, listed, or marked."""

import sys

import numpy as np
import pytest

from patchword.core.errors import UserError
from patchword.data.text.corpus.phrase_units import UnitList, placed, segment, separated, unit_numbers, units
from patchword.data.text.tokenizers.tokenizer import Tokenizer

TEXT = "我喜欢北京大学, and New York."


def test_words_are_found_by_a_segmenter():
    pytest.importorskip("rjieba")
    assert "".join(segment(TEXT)) == TEXT
    found = [TEXT[start:end] for start, end in units(TEXT)]
    assert "北京大学" in found
    assert not any(word.isspace() for word in found)


def test_a_missing_segmenter_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(UserError, match=r"needs the package rjieba") as caught:
        units("北京")
    assert "patchword[zh]" in str(caught.value)


def test_units_with_a_mark_between():
    assert separated("我|喜欢|北京大学", "|") == ("我喜欢北京大学", [(0, 1), (1, 3), (3, 7)])
    assert placed(["a", " ", "b"]) == [(0, 1), (2, 3)]
    with pytest.raises(UserError, match="the separator of units is empty"):
        separated("a", "")


def test_units_of_a_list(tmp_path):
    (tmp_path / "units.txt").write_text("北京\n北京大学\n\nNew York\nork\n", encoding="utf-8")
    listed = UnitList.read(tmp_path / "units.txt")
    assert listed.units == ("北京", "北京大学", "New York", "ork")
    assert [TEXT[start:end] for start, end in listed.places(TEXT)] == ["北京大学", "New York"]
    assert listed.places("去北京") == [(1, 3)]
    assert listed.places("New Yorks") == []
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"empty\.txt is empty: expected one unit per line"):
        UnitList.read(tmp_path / "empty.txt")


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "unigram"])
def test_pieces_have_the_number_of_their_unit(kind):
    tokenizer = Tokenizer.train_on([TEXT, "walking"], 300, "cased", kind=kind)
    found = tokenizer.encode([TEXT])[0]
    numbers = unit_numbers(found, UnitList(("北京大学", "New York")).places(TEXT))
    assert numbers[0] == 0
    assert set(np.diff(numbers).tolist()) <= {0, 1}
    for unit in ("北京大学", "New York"):
        start = TEXT.index(unit)
        inside = (found.starts >= start) & (found.starts < start + len(unit)) & (found.ends > found.starts)
        number = set(numbers[inside].tolist())
        assert len(number) == 1
        assert (numbers[(found.ends <= start) & (found.ends > found.starts)] < min(number)).all()
        assert (numbers[found.starts >= start + len(unit)] > max(number)).all()
    assert unit_numbers(found, []).tolist() == (np.cumsum(np.diff(found.words, prepend=0) != 0)).tolist()
    assert unit_numbers(tokenizer.encode([""])[0], []).tolist() == []
