import pytest

from patchword.core.errors import UserError, nearest


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "the thing"),
        ({"expected": 3, "got": 4}, "the thing: expected 3, got 4"),
        ({"got": 0}, "the thing: got 0"),
        ({"expected": "a", "hint": "do this"}, "the thing: expected a\ndo this"),
    ],
)
def test_message_has_only_what_was_told(fields, message):
    assert str(UserError("the thing", **fields)) == message


def test_a_user_error_is_a_value_error():
    assert issubclass(UserError, ValueError)


def test_nearest_names_the_closest_word_first():
    assert nearest("witdh", ["depth", "width", "heads"]) == "did you mean 'width'?"


def test_nearest_lists_a_few_words_when_none_is_close():
    assert nearest("zzz", ["depth", "width"]) == "known: depth, width"


def test_nearest_does_not_list_a_hundred_words():
    words = [f"model-{number:03}" for number in range(100)]
    assert nearest("zzz", words) == "100 are known, from 'model-000' to 'model-099'"
