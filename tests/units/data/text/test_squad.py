import json

import pytest

from patchword.core.errors import UserError
from patchword.data.text.formats.squad import Answer, Question, read_squad

CONTEXT = "Berlin lies on the Spree. The Spree is a river."


def question(id="1", text="Where?", answers=((19, "Spree"),), **more):
    return {"id": id, "question": text, "answers": [{"answer_start": s, "text": t} for s, t in answers], **more}


def write(folder, *questions, context=CONTEXT, **article):
    path = folder / "dev.json"
    paragraphs = [{"context": context, "qas": list(questions)}]
    path.write_text(json.dumps({"data": [{"title": "Berlin", "paragraphs": paragraphs, **article}]}))
    return path


def test_a_question_comes_back_whole(tmp_path):
    path = write(tmp_path, question(answers=((19, "Spree"), (30, "Spree"))), question("2", "Who?", ((0, "Berlin"),)))
    assert read_squad(path) == [
        Question("1", "Where?", CONTEXT, (Answer("Spree", 19), Answer("Spree", 30)), "Berlin", False),
        Question("2", "Who?", CONTEXT, (Answer("Berlin", 0),), "Berlin", False),
    ]


def test_version_two_has_questions_without_answer(tmp_path):
    more = {"is_impossible": True, "plausible_answers": [{"text": "nonsense", "answer_start": 99}]}
    found = read_squad(write(tmp_path, question(answers=(), **more), question("2", is_impossible=False)))
    assert [(item.impossible, len(item.answers)) for item in found] == [(True, 0), (False, 1)]


def test_questions_alone_can_be_read(tmp_path):
    path = write(tmp_path, {"id": "1", "question": "Where?"})
    assert read_squad(path, answers="left out") == [Question("1", "Where?", CONTEXT, (), "Berlin", False)]


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([question(answers=((5, "Berlin"),))], r"data\[0\]\.paragraphs\[0\]\.qas\[0\]\.answers\[0\]\.text is not .* 5"),
        ([question(answers=((5, "Berlin"),))], r"expected 'Berlin', got 'n lies'\nit is at 0"),
        ([question(answers=((1, "Spree"),))], r"it is at 19, 30"),
        ([question(answers=((-5, "Spree"),))], r"at answer_start -5"),
        ([question(answers=((-6, "river."),))], r"at answer_start -6: expected 'river\.'\nit is at 41"),
        ([question(answers=((19, "Havel"),))], r"got 'Spree'\nit is not in the context"),
        ([question(answers=((0, ""),))], r"answers\[0\]\.text is empty"),
        ([question(answers=(("0", "Berlin"),))], r"answers\[0\]\.answer_start: expected a whole number, got '0'"),
        ([question(answers=((True, "e"),))], r"answer_start: expected a whole number, got True"),
        ([question(answers=())], r"qas\[0\]\.answers: expected an answer, or is_impossible: true, got 0"),
        ([question(is_impossible=True)], r"qas\[0\]\.answers: expected no answers, since is_impossible is true, got 1"),
        ([question(), question()], r"qas\[1\]\.id is a duplicate of data\[0\]\.paragraphs\[0\]\.qas\[0\]: got '1'"),
        ([question(), {"id": "2", "question": "Where?"}], r"paragraphs\[0\]\.qas\[1\]\.answers is missing"),
        ([{"question": "Where?", "answers": []}], r"qas\[0\]\.id is missing"),
        ([question(7)], r"qas\[0\]\.id: expected a text, got 7"),
        ([question(text=" ")], r"qas\[0\]\.question is empty: got id '1'"),
        ([question(text="\ud83d")], r"qas\[0\]\.question: half a character"),
        (["Where?"], r"qas\[0\]\.id is missing"),
        ([], r"has no questions"),
    ],
)
def test_a_wrong_question_is_one_error_with_its_place(tmp_path, questions, message):
    path = write(tmp_path, *questions)
    with pytest.raises(UserError, match=message) as caught:
        read_squad(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"data": [\n{"title" 1}]}', r"line 2, character 10: this is not JSON"),
        (b'{"data": [\n"\xff"]}', r"line 2, byte 2: this is not UTF-8"),
        (b"{}", r"data is missing: expected a list"),
        (b"[]", r"data is missing"),
        (b'{"data": [{"title": "a"}]}', r"data\[0\]\.paragraphs is missing"),
        (b'{"data": [{"paragraphs": [{"qas": []}]}]}', r"data\[0\]\.paragraphs\[0\]\.context is missing"),
        (b"", r"line 1, character 1: this is not JSON"),
    ],
)
def test_a_wrong_file_is_one_error_with_its_place(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match=rf"a\.json.* {message}"):
        read_squad(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("context", "answer", "start"),
    [
        (CONTEXT, (5, "Berlin"), 0),  # once elsewhere
        (CONTEXT, (1, "Spree"), None),  # twice: which one cannot be told
        (CONTEXT, (-1, "the Havel"), None),  # nowhere: an answer for scoring
        ("aaaa", (9, "aa"), None),  # three places, one over the other
        ("\U0002b6ad, fish, fish", (4, "fish"), 3),  # counted in the units of UTF-16
    ],
)
def test_repair_places_an_answer_only_where_it_must_be(tmp_path, context, answer, start):
    path = write(tmp_path, question(answers=(answer,)), context=context)
    with pytest.raises(UserError, match="is not in its context"):
        read_squad(path)
    assert read_squad(path, repair=True)[0].answers == (Answer(answer[1], start),)


def test_repair_does_not_touch_what_is_right(tmp_path):
    path = write(tmp_path, question(answers=((30, "Spree"),)))
    assert read_squad(path, repair=True) == read_squad(path)


def test_articles_without_a_title_are_several(tmp_path):
    paragraphs = [[{"context": CONTEXT, "qas": [question(str(number))]}] for number in range(2)]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"paragraphs": found} for found in paragraphs]}))
    assert len({item.article for item in read_squad(path)}) == 2


def test_a_folder_is_no_squad_file(tmp_path):
    with pytest.raises(UserError, match=r"is a folder: expected a file in \.json, got a folder"):
        read_squad(tmp_path)
