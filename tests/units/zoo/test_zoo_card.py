"""The cards of the zoo."""

import pytest

from patchword.core.errors import UserError
from patchword.zoo.card import format_score, is_worse, read_card
from support.toys.zoo_card import card_values, write_card_file


def test_a_card_is_read_as_it_was_written(tmp_path):
    write_card_file(tmp_path / "tiny")
    card = read_card(tmp_path / "tiny")
    assert (card.name, card.score.value, card.sample.settings) == ("tiny", 0.9, {"data": "sample"})
    assert card.uses == ("patchword predict zoo:tiny photo.png",)


@pytest.mark.parametrize("name", card_values("tiny"))
def test_every_field_is_required(tmp_path, name):
    write_card_file(tmp_path / "tiny", **{name: None})
    with pytest.raises(UserError, match=f"not a card.*{name}"):
        read_card(tmp_path / "tiny")


@pytest.mark.parametrize("changes", [{"licence": ""}, {"uses": []}, {"limits": ""}])
def test_no_field_may_be_empty(tmp_path, changes):
    write_card_file(tmp_path / "tiny", **changes)
    with pytest.raises(UserError, match=f"not complete.*{next(iter(changes))}"):
        read_card(tmp_path / "tiny")


def test_an_unknown_field_is_an_error(tmp_path):
    write_card_file(tmp_path / "tiny", colour="red")
    with pytest.raises(UserError, match="colour"):
        read_card(tmp_path / "tiny")


def test_scores_are_printed_as_they_are_named():
    assert format_score("accuracy", 0.9421) == "94.2% accuracy"
    assert format_score("bleu", 31.26) == "31.3 bleu"
    assert format_score("perplexity", 81.92) == "81.9 perplexity"


@pytest.mark.parametrize(
    ("metric", "value", "worse"),
    [
        ("accuracy", 0.871, False),
        ("accuracy", 0.869, True),
        ("bleu", 29.1, False),
        ("bleu", 28.9, True),
        ("perplexity", 30.0, False),
        ("perplexity", 31.0, True),
    ],
)
def test_a_score_is_compared_in_its_own_unit(metric, value, worse):
    expected = {"accuracy": 0.88, "bleu": 30.0, "perplexity": 30.0}[metric]
    assert is_worse(metric, value, expected, slack=0.01) is worse
