import random

import numpy as np
import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.text.corpus import sentence_pairs as pairs
from patchword.data.text.corpus.sentence_pairs import Frame, plan_packed, plan_pairs
from support.texts import numbered_corpus

CLS, SEP = 2, 3
FRAME = Frame.bert(CLS, SEP)
PLANS = [plan_pairs, plan_packed]


def many(count: int = 400, sentences: tuple[int, int] = (1, 40), tokens: tuple[int, int] = (1, 30)):
    rng = random.Random(0)
    return numbered_corpus([[rng.randint(*tokens) for _ in range(rng.randint(*sentences))] for _ in range(count)])


def owner(corpus, token: np.ndarray) -> np.ndarray:
    """The document of each token."""
    sentence = np.searchsorted(corpus.sentences, token, side="right") - 1
    return np.searchsorted(corpus.documents, sentence, side="right") - 1


def same(one, other) -> bool:
    fields = ("a_start", "a_end", "b_start", "b_end", "label")
    return all(np.array_equal(getattr(one, field), getattr(other, field)) for field in fields)


# Pairs


def test_half_of_the_pairs_are_real_and_the_others_from_another_document():
    corpus = many(sentences=(20, 60))
    plan = plan_pairs(corpus, FRAME, 64, 0, 0)
    first, second = owner(corpus, plan.a_start), owner(corpus, plan.b_start)
    assert ((first == second) == (plan.label == 0)).all()
    assert len(plan) > 5000
    assert 0.49 < plan.label.mean() < 0.56  # a little over a half: the last sentence of a document has none to follow


def test_neither_side_leaves_its_document():
    corpus = many()
    plan = plan_pairs(corpus, FRAME, 64, 0, 0)
    for start, end in ((plan.a_start, plan.a_end), (plan.b_start, plan.b_end)):
        assert (end > start).all()
        assert (owner(corpus, start) == owner(corpus, end - 1)).all()


def test_in_a_real_pair_the_second_follows_the_first():
    corpus = numbered_corpus([[5] * 100] * 3)
    plan = plan_pairs(corpus, FRAME, 64, 0, 0)
    gaps = (plan.b_start - plan.a_end)[plan.label == 0]
    assert ((gaps >= 0) & (gaps < 5)).all()  # what truncation took between them, never a sentence
    assert (gaps == 0).any()


def test_partners_are_drawn_from_all_documents_and_all_their_sentences():
    corpus = numbered_corpus([[5] * 10] * 20)
    found = set()
    for epoch in range(200):
        plan = plan_pairs(corpus, FRAME, 64, 0, epoch)
        found |= set(plan.b_start[plan.label == 1] // 5)
    assert len(found) == 200


def test_every_sentence_is_used_since_unused_ones_are_put_back():
    """Without truncation, the As and the real Bs are each sentence of the corpus once, in order."""
    corpus = numbered_corpus([[5] * 50, [5] * 3, [5]] * 20)
    plan = plan_pairs(corpus, FRAME, 63, 0, 0)  # room for twelve sentences exactly
    real = plan.label == 0
    starts = np.sort(np.concatenate([plan.a_start, plan.b_start[real]]))
    ends = np.sort(np.concatenate([plan.a_end, plan.b_end[real]]))
    whole = plan.lengths < 63
    assert whole.any()
    covered = np.zeros(len(corpus.tokens) + 1, int)
    np.add.at(covered, starts, 1)
    np.add.at(covered, ends, -1)
    counts = np.cumsum(covered)[:-1]
    assert counts.max() == 1  # no sentence twice
    assert (counts == 0).mean() < 0.1  # truncation beside a partner that was too long


def test_a_chunk_of_one_sentence_is_always_random():
    corpus = numbered_corpus([[7]] * 50)
    plan = plan_pairs(corpus, FRAME, 64, 0, 0)
    assert len(plan) == 50
    assert plan.label.tolist() == [1] * 50
    assert (owner(corpus, plan.a_start) != owner(corpus, plan.b_start)).all()


def test_most_examples_are_full_and_a_tenth_are_shorter():
    corpus = numbered_corpus([[1] * 2000] * 10)
    full = plan_pairs(corpus, FRAME, 64, 0, 0, short=0).lengths == 64
    assert full.mean() > 0.95
    shorter = plan_pairs(corpus, FRAME, 64, 0, 0).lengths < 64
    assert 0.07 < shorter.mean() < 0.16


def test_sides_too_long_are_cut_in_front_and_behind_to_the_length():
    corpus = numbered_corpus([[500] * 6] * 200)
    plan = plan_pairs(corpus, FRAME, 64, 0, 0)
    assert set(plan.lengths.tolist()) == {64}
    assert set((plan.a_end - plan.a_start).tolist()) == {31}
    assert set((plan.b_end - plan.b_start).tolist()) == {30}
    front = plan.a_start % 500
    assert front.min() < 30
    assert front.max() > 440


def test_one_document_alone_is_refused():
    with pytest.raises(UserError, match="need two documents: got 1"):
        plan_pairs(numbered_corpus([[5] * 50]), FRAME, 64, 0, 0)


# Packing


def test_packing_takes_every_token_once_within_documents():
    corpus = many(tokens=(1, 200))  # some longer than there is room
    plan = plan_packed(corpus, FRAME, 64, 0, 0)
    order = np.argsort(plan.a_start)
    assert plan.a_start[order][0] == 0
    assert (plan.a_start[order][1:] == plan.a_end[order][:-1]).all()
    assert plan.a_end.max() == len(corpus.tokens)
    assert (owner(corpus, plan.a_start) == owner(corpus, plan.a_end - 1)).all()
    assert plan.lengths.max() == 64
    assert set(plan.label.tolist()) == {-1}


def test_packing_keeps_sentences_whole_where_they_fit_and_leaves_no_room():
    corpus = many(tokens=(1, 30))
    plan = plan_packed(corpus, FRAME, 64, 0, 0, short=0)
    assert np.isin(plan.a_start, corpus.sentences).all()
    assert np.isin(plan.a_end, corpus.sentences).all()
    ended = np.isin(plan.a_end, corpus.sentences[corpus.documents])
    following = corpus.sentences[np.searchsorted(corpus.sentences, plan.a_end[~ended]) + 1]
    assert (following - plan.a_start[~ended] > 62).all()  # the next sentence would not have fitted


# Both


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_is_a_function_of_seed_and_epoch(plan):
    corpus = many(100)
    assert same(plan(corpus, FRAME, 64, 3, 5), plan(corpus, FRAME, 64, 3, 5))
    assert not same(plan(corpus, FRAME, 64, 3, 5), plan(corpus, FRAME, 64, 3, 6))
    assert not same(plan(corpus, FRAME, 64, 3, 5), plan(corpus, FRAME, 64, 4, 5))


@pytest.mark.parametrize("plan", PLANS)
def test_blocks_of_planning_change_nothing(plan, monkeypatch):
    corpus = many(100)
    whole = plan(corpus, FRAME, 64, 0, 0)
    monkeypatch.setattr(pairs, "_BLOCK", 50)
    assert same(plan(corpus, FRAME, 64, 0, 0), whole)


@pytest.mark.parametrize("plan", PLANS)
def test_only_the_documents_asked_for_are_used(plan):
    corpus = many(50)
    chosen = np.array([3, 4, 17, 40, 49])
    found = plan(corpus, FRAME, 64, 0, 0, documents=chosen)
    assert set(owner(corpus, found.a_start)) == set(chosen)
    assert set(owner(corpus, found.b_start[found.label == 1])) <= set(chosen)


@pytest.mark.parametrize("plan", PLANS)
def test_a_batch_is_put_together_as_written(plan):
    corpus = many(50)
    found = plan(corpus, FRAME, 64, 0, 0)
    index = torch.tensor([7, 0, len(found) - 1, 7])
    ids, segments, labels = found.batch(index)
    assert (ids.values.dtype, segments.values.dtype, labels.dtype) == (torch.int32, torch.int32, torch.int64)
    for row, number in enumerate(index.tolist()):
        first = corpus.tokens[found.a_start[number] : found.a_end[number]].tolist()
        second = corpus.tokens[found.b_start[number] : found.b_end[number]].tolist()
        tail = [*second, SEP] if second else []
        assert ids.row(row).tolist() == [CLS, *first, SEP, *tail]
        assert segments.row(row).tolist() == [0] * (len(first) + 2) + [1] * len(tail)
        assert len(ids.row(row)) == found.lengths[number]
    assert labels.tolist() == found.label[index.numpy()].tolist()


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("frame", [Frame((5,), (6, 6), (6,)), Frame((), (6,), (6,)), Frame()])
def test_a_batch_has_the_frame_of_its_tokenizer(plan, frame):
    corpus = many(50)
    found = plan(corpus, frame, 64, 0, 0)
    assert found.lengths.max() <= 64
    ids, segments, _ = found.batch(torch.arange(len(found)))
    for row in range(0, len(found), 7):
        first = corpus.tokens[found.a_start[row] : found.a_end[row]]
        second = corpus.tokens[found.b_start[row] : found.b_end[row]]
        expected, parts = frame.around(first, second if len(second) else None)
        assert ids.row(row).tolist() == expected.tolist()
        assert segments.row(row).tolist() == parts.tolist()
        assert len(expected) == found.lengths[row]


@pytest.mark.parametrize("plan", PLANS)
def test_documents_of_one_token_are_enough(plan):
    corpus = numbered_corpus([[1], [1]])
    ids, _, _ = plan(corpus, FRAME, 64, 0, 0).batch(torch.tensor([0, 1]))
    assert [row[:3] for row in (ids.row(0).tolist(), ids.row(1).tolist())] == [[CLS, 10, SEP], [CLS, 11, SEP]]


@pytest.mark.parametrize("plan", PLANS)
def test_a_length_without_room_is_refused(plan):
    with pytest.raises(UserError, match="the length of an example"):
        plan(many(5), FRAME, 3, 0, 0)
