"""News articles: fields between their tokens, in any order, and dealt for training."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from patchword.core.errors import UserError
from patchword.data.text.formats.news import FIELDS, FieldTokens, Mixing, article_ids, prompt_ids

NAMES = ("domain", "date", "authors", "title", "article")
ARTICLE = {"domain": "a.b", "date": "May", "authors": "Ada", "headline": "Hi!", "body": "A cat."}
TOKENS = FieldTokens(
    {field: 200 + place for place, field in enumerate(FIELDS)},
    {field: 300 + place for place, field in enumerate(FIELDS)},
)


class Characters:
    """A character's number is its code."""

    def __init__(self, *lacking: str) -> None:
        names = [f"<|{start}{name}|>" for name in NAMES for start in ("begin", "endof")]
        self.known = {name: 200 + place for place, name in enumerate(names) if name not in lacking}

    def ids_of(self, texts):
        return [np.array([ord(letter) for letter in text], np.int32) for text in texts]

    def id_of(self, token):
        return self.known.get(token)


def readable(ids: np.ndarray) -> str:
    marks = {number: f"<{field}>" for field, number in TOKENS.begin.items()}
    marks |= {number: f"</{field}>" for field, number in TOKENS.end.items()}
    return "".join(marks.get(number) or chr(number) for number in ids.tolist())


def test_tokens_are_found_by_the_authors_names():
    found = FieldTokens.of(Characters())
    assert [found.begin[field] for field in FIELDS] == [200, 202, 204, 206, 208]
    assert [found.end[field] for field in FIELDS] == [201, 203, 205, 207, 209]
    with pytest.raises(UserError, match=r"has no tokens for news fields: expected <\|endoftitle\|> among its entries"):
        FieldTokens.of(Characters("<|endoftitle|>"))


def test_fields_stand_between_their_tokens_in_the_order_given():
    found = article_ids(Characters(), TOKENS, ARTICLE, ["body", "date", "headline"])
    assert readable(found) == "<body>A cat.</body><date>May</date><headline>Hi!</headline>"
    assert found.dtype == np.int32
    assert len(article_ids(Characters(), TOKENS, ARTICLE, [])) == 0


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        (("headline", "domain"), "body", "<domain>a.b</domain><headline>Hi!</headline><body>"),
        ((), "body", "<body>"),
        (("body",), "headline", "<body>A cat.</body><headline>"),
        (
            FIELDS[:4],
            "body",
            "<domain>a.b</domain><date>May</date><authors>Ada</authors><headline>Hi!</headline><body>",
        ),
    ],
)
def test_a_prompt_is_what_is_given_and_the_beginning_of_what_is_wanted(given, wanted, expected):
    found = prompt_ids(Characters(), TOKENS, {field: ARTICLE[field] for field in given}, wanted)
    assert readable(found) == expected


def test_wrong_fields_are_refused():
    with pytest.raises(UserError, match="news articles have no field 'heading'\ndid you mean 'headline'"):
        prompt_ids(Characters(), TOKENS, {"heading": "x"}, "body")
    with pytest.raises(UserError, match="the field 'body' is both given and requested"):
        prompt_ids(Characters(), TOKENS, {"body": "x"}, "body")
    with pytest.raises(UserError, match="a field occurs twice"):
        article_ids(Characters(), TOKENS, ARTICLE, ["body", "body"])


MANY = 4000


def test_fields_are_dropped_and_dealt_as_often_as_the_paper_says():
    orders = Mixing().orders([FIELDS] * MANY, 0, range(MANY))
    assert all("body" in order for order in orders)
    bare = sum(order == ["body"] for order in orders) / MANY
    assert bare == pytest.approx(0.35, abs=0.03)
    full = [order for order in orders if order != ["body"]]
    for field in FIELDS[:4]:
        assert 1 - sum(field in order for order in full) / len(full) == pytest.approx(0.1, abs=0.02)
    pairs = Counter(order.index("headline") < order.index("body") for order in full if "headline" in order)
    assert pairs[True] / pairs.total() == pytest.approx(0.75, abs=0.03)  # in one set, or the first of two


def test_each_of_two_sets_keeps_the_order():
    for order in Mixing().orders([FIELDS] * 200, 0, range(200)):
        places = [FIELDS.index(field) for field in order]
        assert sum(one > other for one, other in pairwise(places)) <= 1


def test_the_order_follows_from_seed_epoch_and_sample():
    def orders(seed: int, epoch: int) -> list[list[str]]:
        return Mixing(seed=seed).orders([FIELDS] * 20, epoch, range(20))

    assert orders(0, 0) == orders(0, 0)
    assert orders(0, 0) != orders(0, 1)
    assert orders(0, 0) != orders(1, 0)
    assert len({tuple(order) for order in orders(0, 0)}) > 5
    assert Mixing().orders([FIELDS] * 3, 0, [4, 2, 19]) == [orders(0, 0)[sample] for sample in (4, 2, 19)]


def test_fields_that_an_article_lacks_are_passed_over():
    for found in Mixing(bare=0.0, dropped=0.0).orders([["headline", "body"]] * 50, 0, range(50)):
        assert sorted(found) == ["body", "headline"]
    assert Mixing(bare=1.0, dropped=0.0).orders([["headline"]], 0, [0]) == [["headline"]]  # there is no body to leave
