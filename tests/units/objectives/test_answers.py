import itertools
import math
import random

import pytest
import torch

from patchword.objectives.metrics.answer_search import Spans, Window, best_spans, merge_windows
from patchword.objectives.metrics.answers import CHINESE, answer_f1, exact_match, score_answers


@pytest.mark.parametrize(
    ("predicted", "answers", "exact", "f1"),
    [
        ("The Spree.", ["spree"], 1, 1),
        ("an  old,  river", ["old river", "x"], 1, 1),
        ("the old river Spree", ["river Spree", "Havel"], 0, 0.8),
        ("Havel", ["Spree"], 0, 0),
        ("b b a-c", ["b ac"], 0, 0.8),
        ("theatre", ["atre"], 0, 0),
        ("", ["Spree"], 0, 0),
        ("", [], 1, 1),
        ("Spree", [], 0, 0),
        ("the", ["The"], 1, 1),
    ],
)
def test_english_answers_are_compared_as_squad_does(predicted, answers, exact, f1):
    assert exact_match(predicted, answers) == exact
    assert answer_f1(predicted, answers) == pytest.approx(f1)


def test_a_run_of_characters_is_found_like_by_hand():
    draw = random.Random(0)
    for _ in range(200):
        ours, theirs = ("".join(draw.choices("东京大学", k=draw.randrange(1, 9))) for _ in range(2))
        parts = {ours[first:last] for first in range(len(ours)) for last in range(first + 1, len(ours) + 1)}
        run = max((len(part) for part in parts if part in theirs), default=0)
        assert answer_f1(ours, [theirs], CHINESE) == pytest.approx(2 * run / (len(ours) + len(theirs)))


@pytest.mark.parametrize(
    ("predicted", "answers", "exact", "f1"),
    [
        ("《战国无双3》", ["战国无双3"], 1, 1),
        ("光荣和ω-force", ["光荣和ω-force。"], 1, 1),
        ("光荣和ω-force", ["光荣"], 0, 2 * 2 / 6),  # 光 荣 和 ωforce
        ("东京大学", ["东大京学"], 0, 2 * 1 / 8),  # runs count, not bags
        ("2010年", ["2010年3月"], 0, 2 * 2 / 6),
        ("3.5万", ["35万"], 0, 0.5),
        ("", ["东京"], 0, 0),
        ("", [], 1, 1),
    ],
)
def test_chinese_answers_are_compared_by_characters(predicted, answers, exact, f1):
    assert exact_match(predicted, answers, CHINESE) == exact
    assert answer_f1(predicted, answers, CHINESE) == pytest.approx(f1)


def test_a_set_is_scored_with_and_without_answers():
    answers = {"1": ["Spree", "the Spree river"], "2": ["Havel"], "3": [], "4": []}
    scores = score_answers({"1": "Spree river", "3": "", "4": "Spree"}, answers)
    assert scores.exact.tolist() == [1, 0, 1, 0]
    assert scores.impossible.tolist() == [False, False, True, True]
    assert scores.summary() == {
        "exact": 0.5,
        "f1": 0.5,
        "answerable-exact": 0.5,
        "answerable-f1": 0.5,
        "impossible-exact": 0.5,
        "impossible-f1": 0.5,
    }
    assert set(score_answers({}, {"1": ["x"]}).summary()) == {"exact", "f1"}


@pytest.mark.parametrize(("tokens", "longest", "most"), [(12, 4, 20), (12, 30, 7), (3, 30, 20), (1, 1, 1)])
def test_the_best_spans_are_those_of_a_search_by_hand(tokens, longest, most):
    draw = torch.Generator().manual_seed(tokens)
    start, end = torch.randn(2, 3, tokens, generator=draw)
    allowed = torch.rand(3, tokens, generator=draw) < 0.7
    found = best_spans(start, end, allowed, longest, most)
    for row in range(3):
        spans = [
            (float(start[row, first] + end[row, last]), first, last)
            for first, last in itertools.product(range(tokens), repeat=2)
            if first <= last < first + longest and allowed[row, first] and allowed[row, last]
        ]
        expected = sorted(spans, reverse=True)[:most]
        values = zip(*(part[row].tolist() for part in (found.scores, found.starts, found.ends)), strict=True)
        assert [span for span in values if span[0] > -math.inf] == expected


def test_one_window_needs_no_leading_dimension():
    found = best_spans(torch.tensor([0.0, 3, 0]), torch.tensor([9.0, 0, 2]), torch.tensor([False, True, True]), most=2)
    assert found.starts.tolist() == [1, 1]
    assert found.ends.tolist() == [2, 1]
    assert found.scores.tolist() == [5, 3]


def window(spans, null=None):
    """tokens of two characters and a space between; spans: (first token, last token, score)"""
    first, last, scores = (torch.tensor(values) for values in zip(*spans, strict=True))
    starts = torch.arange(10) * 3
    return Window(Spans(first, last, scores), starts, starts + 2, null)


CONTEXT = "aa bb cc dd ee ff gg hh ii jj"


def test_answers_are_parts_of_the_context():
    found = merge_windows(CONTEXT, [window([(1, 2, 4.0), (0, 0, 1.0)]), window([(3, 3, 2.0), (5, 6, -math.inf)])])
    assert [(item.text, item.start, item.end) for item in found.candidates] == [
        ("bb cc", 3, 8),
        ("dd", 9, 11),
        ("aa", 0, 2),
    ]
    expected = torch.tensor([4.0, 2.0, 1.0]).softmax(0).tolist()
    assert [item.probability for item in found.candidates] == pytest.approx(expected)
    assert found.null is None
    assert found.answer().text == "bb cc"


def test_a_part_two_windows_propose_counts_once_with_its_better_score():
    found = merge_windows(CONTEXT, [window([(1, 1, 2.0)]), window([(1, 1, 5.0), (2, 2, 3.0)])], most=2)
    assert [(item.text, item.score) for item in found.candidates] == [("bb", 5.0), ("cc", 3.0)]
    assert len(merge_windows(CONTEXT, [window([(1, 1, 2.0), (2, 2, 3.0)])], most=1).candidates) == 1


def test_no_answer_is_as_likely_as_in_the_window_that_doubts_it_most():
    found = merge_windows(CONTEXT, [window([(1, 1, 2.0)], null=6.0), window([(2, 2, 1.0)], null=3.0)])
    assert found.null == 3.0
    everything = [item.probability for item in found.candidates] + [found.null_probability]
    assert everything == pytest.approx(torch.tensor([2.0, 1.0, 3.0]).softmax(0).tolist())
    assert found.answer() is None
    assert found.answer(threshold=1.0).text == "bb"


def test_a_question_without_any_span_has_no_answer():
    found = merge_windows(CONTEXT, [window([(0, 0, -math.inf)])])
    assert found.candidates == ()
    assert found.answer() is None
    assert merge_windows(CONTEXT, [window([(0, 0, -math.inf)], null=1.0)]).null_probability == 1.0


def test_chinese_answers_are_cut_by_characters():
    context = "在歐洲，梵語的研究"
    starts = torch.arange(len(context))
    allowed = torch.ones(len(context), dtype=torch.bool)
    start, end = torch.zeros(2, len(context))
    start[4], end[5] = 5, 5
    found = merge_windows(context, [Window(best_spans(start, end, allowed), starts, starts + 1)])
    assert found.candidates[0].text == "梵語"
