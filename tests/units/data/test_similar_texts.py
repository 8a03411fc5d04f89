"""Texts that share most of their runs of three words."""

import random

import pytest

from patchword.data.text.near_duplicates import SimilarTexts

WORDS = [f"word{number}" for number in range(3000)]


def written(draw: random.Random) -> list[str]:
    return draw.choices(WORDS, k=draw.randint(12, 60))


def changed(words: list[str], times: int, draw: random.Random) -> list[str]:
    found = list(words)
    for place in draw.sample(range(len(found)), times):
        found[place] = "another"
    return found


def share(first: list[str], second: list[str]) -> float:
    """The definition: runs that both have, of those that one of them has."""
    one, two = ({tuple(words[at : at + 3]) for at in range(len(words) - 2)} for words in (first, second))
    return len(one & two) / len(one | two)


def test_what_is_found_is_what_the_definition_finds():
    draw = random.Random(0)
    texts = [written(draw) for _ in range(300)]
    index = SimilarTexts((" ".join(words), f"line {line}") for line, words in enumerate(texts))
    similar = 0
    for line, words in enumerate(texts):
        asked = changed(words, draw.randint(1, 4), draw)
        expected = share(words, asked)
        similar += expected >= 0.7
        assert index.find(" ".join(asked)) == ((f"line {line}", pytest.approx(expected)) if expected >= 0.7 else None)
    assert 100 < similar < 250


def test_the_most_similar_text_is_named():
    draw = random.Random(1)
    words = draw.choices(WORDS, k=60)
    index = SimilarTexts([(" ".join(changed(words, 3, draw)), "far"), (" ".join(changed(words, 1, draw)), "near")])
    found = index.find(" ".join(words))
    assert found is not None
    assert found[0] == "near"


def test_form_does_not_count():
    text = "It was a long and quiet film about the sea, and about those who live of it."
    assert SimilarTexts([(text, "here")]).find(text.upper().replace(",", " --")) == ("here", 1.0)


def test_short_texts_are_often_similar_by_chance():
    assert (
        SimilarTexts([("one two three four five six seven eight", "here")]).find(
            "one two three four five six seven eight"
        )
        is None
    )


def test_a_chinese_character_is_a_word():
    text = "这家酒店的房间很干净服务也很好早餐非常丰富下次还会再来住"
    index = SimilarTexts([(text, "here")])
    assert index.find(text.replace("早", "晚")) is not None
    assert index.find(text[::-1]) is None


def test_pairs_of_texts_count_together():
    first, second = "the cat sat on the mat and slept", "it did not wake up when the dog came"
    assert SimilarTexts([((first, second), "here")]).find((first, second + " home")) is not None
