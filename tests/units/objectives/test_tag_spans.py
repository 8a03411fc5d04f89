import json
from pathlib import Path

import pytest

from patchword.core.errors import UserError
from patchword.objectives.metrics.tag_spans import Span, are_span_tags, span_scores, spans_of

CASES = [
    ("B-x I-x O B-x", [("x", 0, 2), ("x", 3, 4)], [("x", 0, 2), ("x", 3, 4)]),
    ("I-x I-x O", [("x", 0, 2)], []),  # IOB1 begins so
    ("I-x B-x I-x", [("x", 0, 1), ("x", 1, 3)], [("x", 1, 3)]),
    ("B-x I-y O", [("x", 0, 1), ("y", 1, 2)], [("x", 0, 1)]),
    ("B-x B-x", [("x", 0, 1), ("x", 1, 2)], [("x", 0, 1), ("x", 1, 2)]),
    ("O O", [], []),
    ("", [], []),
    ("B-creative-work I-creative-work", [("creative-work", 0, 2)], [("creative-work", 0, 2)]),
    ("B I O", [("_", 0, 2)], [("_", 0, 2)]),
]
CLOSED = [
    ("B-x I-x E-x S-y", [("x", 0, 3), ("y", 3, 4)], [("x", 0, 3), ("y", 3, 4)]),
    ("B-x I-x O S-y", [("x", 0, 2), ("y", 3, 4)], [("y", 3, 4)]),
    ("E-x E-x", [("x", 0, 1), ("x", 1, 2)], []),
    ("B-x E-y", [("x", 0, 1), ("y", 1, 2)], []),
    ("B-x L-x U-y", [("x", 0, 2), ("y", 2, 3)], [("x", 0, 2), ("y", 2, 3)]),
    ("B-x M-x E-x", [("x", 0, 3)], [("x", 0, 3)]),
]


@pytest.mark.parametrize(("tags", "lenient", "strict"), CASES)
def test_spans_of_bio_tags(tags, lenient, strict):
    assert spans_of(tags.split()) == [Span(*span) for span in lenient]
    assert spans_of(tags.split(), "iob2") == [Span(*span) for span in strict]


@pytest.mark.parametrize(("tags", "lenient", "strict"), CLOSED)
def test_spans_of_bioes_tags(tags, lenient, strict):
    assert spans_of(tags.split()) == [Span(*span) for span in lenient]
    assert spans_of(tags.split(), "bioes") == [Span(*span) for span in strict]


def test_a_span_counts_only_with_its_kind_and_both_ends():
    truth = [["B-x", "I-x", "O"], ["B-y", "O", "B-x"]]
    guess = [["B-x", "O", "O"], ["B-y", "O", "B-y"]]
    scores = span_scores(guess, truth)
    assert (scores.overall.right, scores.overall.predicted, scores.overall.true) == (1, 3, 3)
    assert scores.overall.f1 == pytest.approx(1 / 3)
    assert list(scores.kinds) == ["x", "y"]
    assert (scores.kinds["y"].precision, scores.kinds["y"].recall) == (0.5, 1.0)


def test_no_spans_score_nothing():
    scores = span_scores([["O"]], [["O"]])
    assert (scores.overall.precision, scores.overall.recall, scores.overall.f1) == (0, 0, 0)


def test_the_same_span_of_another_sentence_is_not_right():
    assert span_scores([["B-x"], ["O"]], [["O"], ["B-x"]]).overall.right == 0


def test_unequal_sentences_are_refused():
    with pytest.raises(ValueError, match="sentence 0 has 2 tags, 1 were predicted"):
        span_scores([["O"]], [["O", "O"]])


def test_parts_of_speech_are_no_spans():
    assert are_span_tags({"O", "B-x", "I-x"})
    assert are_span_tags({"B", "M", "E", "S"})
    assert not are_span_tags({"NOUN", "VERB", "O"})
    assert not are_span_tags({"O"})
    with pytest.raises(UserError, match="the tag 'NOUN' does not encode a span"):
        spans_of(["NOUN"])


GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "tag_spans.json").read_text())


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['letters']} {case['reading']}")
def test_scores_are_those_of_seqeval(case):
    """Random tags with random mistakes, scored by seqeval 1.2.2."""
    truth, guess = ([line.split() for line in case[name]] for name in ("truth", "guess"))
    ours = span_scores(guess, truth, case["reading"])
    assert (ours.overall.precision, ours.overall.recall, ours.overall.f1) == pytest.approx(tuple(case["micro"]))
    assert [score.f1 for score in ours.kinds.values()] == pytest.approx(case["f1"])
    assert [score.true for score in ours.kinds.values()] == case["true"]
    assert 0.2 < ours.overall.f1 < 0.9  # the case tells something
