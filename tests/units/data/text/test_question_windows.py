"""Questions over a text: the answer's tokens stand on the answer's characters."""

import numpy as np
import pytest
import torch

from patchword.data.text.batching.assembly import Limit
from patchword.data.text.batching.batches import IGNORE
from patchword.data.text.batching.question_windows import LONGEST_QUESTION, Windows, windows
from patchword.data.text.formats.squad import Answer, Question
from support.tiny_texts import vocabulary_of

WORDS = "who what where lives in the a big old green house by river ada lovelace and her cat 's , . ( ) 1852 ##land eng"
CHINESE = "北 京 大 学 在 哪 里 中 国 的 首 都 。 是"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return vocabulary_of([*WORDS.split(), *CHINESE.split(), "##s"], tmp_path_factory.mktemp("words"))


def question(context: str, *answers: str, words: str = "who lives in the house", name: str = "q") -> Question:
    placed = tuple(Answer(text, context.find(text) if text in context else None) for text in answers)
    return Question(name, words, context, placed, "article", impossible=not answers)


def output(found: Windows, number: int, context: str) -> str | None:
    """the characters that a window's labels point to"""
    first, last = found.examples.labels[number].tolist()
    if (first, last) == (0, 0):
        return None
    return context[int(found.starts.row(number)[first]) : int(found.ends.row(number)[last])]


@pytest.mark.parametrize(
    ("answer", "pointed"),
    [
        ("Ada Lovelace", "Ada Lovelace"),
        ("the old house", "the old house"),
        ("England", "England"),
        ("eng", "eng"),  # within a word it is the pieces it touches
        ("land", "land"),
        ("ovelac", "Lovelace"),
        ("1852", "1852"),
        ("(1852)", "(1852)"),
        ("Ada Lovelace's", "Ada Lovelace's"),
        ("Ada", "Ada"),
        ("river.", "river."),
    ],
)
def test_the_answers_tokens_are_on_its_characters(tokenizer, answer, pointed):
    context = "Ada Lovelace's cat lives in   the old house (1852) , in England, by the river."
    if answer == "eng":
        context = context.replace("England", "england")
    found = windows(tokenizer, "questions", [question(context, answer)], Limit(64, 16))
    assert len(found.examples) == 1
    assert output(found, 0, context) == pointed


def test_an_accent_does_not_shift_the_answer(tokenizer):
    context = "thé big âda, Ada"
    found = windows(tokenizer, "questions", [question(context, "Ada")], Limit(64, 16))
    assert output(found, 0, context) == "Ada"


def test_a_window_is_the_question_and_a_part_of_the_context(tokenizer):
    context = "the old green house by the river"
    found = windows(tokenizer, "questions", [question(context, "house", words="who in")], Limit(10, 3))
    rows = [" ".join(tokenizer.tokens(found.examples.ids.row(number).numpy())) for number in range(2)]
    assert rows[0] == "[CLS] who in [SEP] the old green house by [SEP]"
    assert rows[1] == "[CLS] who in [SEP] house by the river [SEP]"
    assert len(found.examples) == 2
    assert found.examples.segments.row(0).tolist() == [0] * 4 + [1] * 6
    assert found.starts.row(0).tolist() == [IGNORE] * 4 + [0, 4, 8, 14, 20] + [IGNORE]
    assert found.ends.row(1).tolist() == [IGNORE] * 4 + [19, 22, 26, 32] + [IGNORE]
    assert [output(found, number, context) for number in range(2)] == ["house", "house"]
    assert found.examples.windowed == 1


@pytest.mark.parametrize("answer", ["green house by", "house by the", "by the river ,", "old", "river , ada"])
def test_windows_without_the_whole_answer_point_to_cls(tokenizer, answer):
    context = "a big old green house by the river , ada and her cat"
    asked = question(context, answer, words="where")
    found = windows(tokenizer, "questions", [asked], Limit(10, 2))
    answers = [output(found, number, context) for number in range(len(found.examples))]
    start = context.find(answer)
    for number, pointed in enumerate(answers):
        begins, stops = found.starts.row(number), found.ends.row(number)
        inside = bool((begins == start).any() and (stops == start + len(answer)).any())
        assert pointed == (answer if inside else None)
    assert None in answers
    assert answers.count(answer) > 1 or answer == "by the river ,"  # windows overlap


def test_the_windows_of_a_question_cover_the_context(tokenizer):
    context = " ".join(["the old green house by the river"] * 7)
    found = windows(tokenizer, "questions", [question("a", "a"), question(context, "river")], Limit(16, 5))
    starts = torch.cat([found.starts.row(number) for number in range(1, len(found.examples))])
    wanted = [match for match in range(len(context)) if match == 0 or context[match - 1] == " "]
    assert sorted(set(starts.tolist()) - {IGNORE}) == wanted
    assert found.examples.owner.tolist() == [0] + [1] * (len(found.examples) - 1)


def test_chinese_is_answered_by_characters(tokenizer):
    context = "北京大学在中国的首都北京。"
    found = windows(tokenizer, "questions", [question(context, "首都北京", words="北京大学在哪里")], Limit(40, 8))
    assert output(found, 0, context) == "首都北京"
    first, last = found.examples.labels[0].tolist()
    assert last - first == 3


def test_the_first_answer_whose_place_is_known_is_learned(tokenizer):
    context = "ada lives in the house"
    found = windows(tokenizer, "questions", [question(context, "nowhere", "house", "ada")], Limit(40, 8))
    assert output(found, 0, context) == "house"
    found = windows(tokenizer, "questions", [question(context, "nowhere")], Limit(40, 8))
    assert found.examples.labels.tolist() == [[0, 0]]


def test_a_question_without_an_answer_points_to_cls(tokenizer):
    found = windows(tokenizer, "questions", [question("the house")], Limit(40, 8))
    assert found.examples.labels.tolist() == [[0, 0]]


def test_a_long_question_leaves_room_for_the_context(tokenizer):
    """Were it not cut, no window would have room for a token of the context."""
    context = "ada lives in the old house"
    asked = question(context, "house", words="who " * 200)
    for length in (8, 12, 40, 64, 200):
        found = windows(tokenizer, "questions", [asked], Limit(length, 4))
        assert int(found.examples.ids.lengths.max()) <= length
        starts = np.unique(torch.cat([found.starts.row(number) for number in range(len(found.examples))]).numpy())
        assert starts.tolist() == [IGNORE, 0, 4, 10, 13, 17, 21]
        assert "house" in [output(found, number, context) for number in range(len(found.examples))]
        words = int((found.examples.ids.row(0) == tokenizer.id_of("who")).sum())
        assert words == min(LONGEST_QUESTION, length // 2)


def test_a_context_of_nothing_has_one_window(tokenizer):
    found = windows(tokenizer, "questions", [question(" ")], Limit(16, 4))
    assert found.examples.ids.lengths.tolist() == [8]
    assert (found.starts.values == IGNORE).all()


def test_questions_over_one_context_share_it(tokenizer, monkeypatch):
    seen: list[str] = []
    encode = tokenizer.encode
    monkeypatch.setattr(tokenizer, "encode", lambda texts: seen.extend(texts) or encode(texts))
    asked = [question("the house", "house", name=str(number)) for number in range(5)]
    assert len(windows(tokenizer, "questions", asked, Limit(16, 4)).examples) == 5
    assert seen == ["the house"]
