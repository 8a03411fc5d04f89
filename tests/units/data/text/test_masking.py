import numpy as np
import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.text.batching.mask_groups import NGrams, PhraseUnits, WholeWords, phrases, segmented
from patchword.data.text.batching.masking import Masking
from patchword.data.text.batching.ragged import Ragged, ends

VOCABULARY, MASK = 1000, 4
SPECIALS = (0, 1, 2, 3, MASK)


CONTINUES = (torch.arange(VOCABULARY) % 3 == 0) & (torch.arange(VOCABULARY) > 4)  # a third of the entries
WHOLE = WholeWords(CONTINUES)


class Facts:
    """What masking asks of a tokenizer."""

    vocabulary, mask, specials = VOCABULARY, MASK, SPECIALS


def batch_of(lengths: torch.Tensor, seed: int = 0) -> Ragged:
    """[CLS] (2), ordinary tokens with a [SEP] (3) here and there, [SEP]; the lengths count all of it."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(5, VOCABULARY, (int(lengths.sum()),), generator=generator, dtype=torch.int32)
    values[torch.rand(len(values), generator=generator) < 0.01] = 3
    offsets = ends(lengths)
    values[offsets[:-1]] = 2
    values[offsets[1:] - 1] = 3
    return Ragged(values, offsets)


def million() -> Ragged:
    """More than a million tokens in rows of all lengths"""
    return batch_of(torch.randint(3, 513, (4000,), generator=torch.Generator().manual_seed(1)))


def ordinary(batch: Ragged) -> torch.Tensor:
    return ~torch.isin(batch.values, torch.tensor(SPECIALS))


def per_row(batch: Ragged, chosen: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(len(batch)).repeat_interleave(batch.lengths)
    return torch.bincount(rows[chosen], minlength=len(batch))


@pytest.fixture(scope="module")
def batch():
    return million()


@pytest.fixture(scope="module")
def masked(batch):
    return Masking.of(Facts()).apply(batch, torch.arange(len(batch)), 0, 0)


@pytest.mark.parametrize(
    ("grouping", "places"),
    [(None, [9, 10, 20, 25, 31, 48, 49, 53, 56]), (WHOLE, [9, 10, 20, 29, 31, 46, 49, 52, 53])],
    ids=["pieces", "words"],
)
def test_what_is_chosen_never_changes(grouping, places):
    """A run that was begun with an earlier version goes on as it would have."""
    given = Ragged((torch.arange(60) * 37 % 995 + 5).int(), torch.tensor([0, 30, 33, 60]))
    found = Masking.of(Facts(), grouping=grouping).apply(given, torch.tensor([5, 9, 2]), 3, 1)
    assert found.places.tolist() == places
    assert found.ids[found.places].tolist() == [118, *[MASK] * 8]


# How many, and what becomes of them


def test_fifteen_percent_are_chosen_and_never_a_special(batch, masked):
    candidates = ordinary(batch)
    assert len(batch.values) > 1_000_000
    assert abs(len(masked.places) / int(candidates.sum()) - 0.15) < 0.001
    assert candidates[masked.places].all()
    assert masked.places.diff().min() > 0


def test_the_count_of_each_row_is_exact(batch, masked):
    candidates = per_row(batch, ordinary(batch).nonzero()[:, 0])
    expected = [max(1, round(0.15 * count)) if count else 0 for count in candidates.tolist()]
    assert per_row(batch, masked.places).tolist() == expected


def test_eighty_ten_ten(batch, masked):
    before, after = batch.values[masked.places], masked.ids[masked.places]
    assert torch.equal(masked.labels, before.long())
    hidden, kept = after == MASK, after == before
    assert abs(float(hidden.double().mean()) - 0.8) < 0.005
    assert abs(float(kept.double().mean()) - 0.1) < 0.005
    assert abs(float((~hidden & ~kept).double().mean()) - 0.1) < 0.005


def test_nothing_else_changes(batch, masked):
    untouched = torch.ones(len(batch.values), dtype=torch.bool)
    untouched[masked.places] = False
    assert torch.equal(masked.ids[untouched], batch.values[untouched])
    assert masked.ids.dtype == batch.values.dtype


def test_every_place_is_chosen_equally_often():
    rows = batch_of(torch.full((20_000,), 22))
    rows.values[rows.values == 3] = 5
    masked = Masking.of(Facts()).apply(rows, torch.arange(20_000), 0, 0)
    counts = torch.bincount(masked.places % 22, minlength=22)[1:].double()
    expected = counts.mean()
    assert (counts - expected).abs().max() < 5 * (expected * 0.85) ** 0.5


def test_random_tokens_come_from_the_whole_vocabulary_or_from_ordinary_ones(batch, masked):
    def drawn(found):
        after = found.ids[found.places]
        return after[(after != MASK) & (after != found.labels)]

    assert set(SPECIALS) - {MASK} <= set(drawn(masked).tolist())
    assert len(drawn(masked).unique()) == VOCABULARY - 1
    without = Masking.of(Facts(), random_specials=False).apply(batch, torch.arange(len(batch)), 0, 0)
    assert set(drawn(without).tolist()) == set(range(5, VOCABULARY))


def test_no_row_has_more_than_the_limit(batch):
    masked = Masking.of(Facts(), most=20).apply(batch, torch.arange(len(batch)), 0, 0)
    assert int(per_row(batch, masked.places).max()) == 20


def test_another_share_is_kept_too(batch):
    masked = Masking.of(Facts(), fraction=0.4).apply(batch, torch.arange(len(batch)), 0, 0)
    assert abs(len(masked.places) / int(ordinary(batch).sum()) - 0.4) < 0.001


# Where the randomness comes from


def test_a_row_is_masked_alike_whatever_its_batch(batch, masked):
    index = torch.tensor([17, 3999, 0, 5])
    part = batch.take(index)
    again = Masking.of(Facts()).apply(part, index, 0, 0)
    whole = Ragged(masked.ids, batch.offsets).take(index)
    assert torch.equal(again.ids, whole.values)


def test_whole_words_do_not_depend_on_the_batch_either(batch):
    masking, index = Masking.of(Facts(), grouping=WHOLE), torch.tensor([3999, 8, 8])
    first = masking.apply(batch, torch.arange(len(batch)), 3, 1)
    again = masking.apply(batch.take(index), index, 3, 1)
    assert torch.equal(again.ids, Ragged(first.ids, batch.offsets).take(index).values)


@pytest.mark.parametrize(("seed", "epoch", "shift"), [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_another_seed_epoch_or_sample_has_another_mask(batch, masked, seed, epoch, shift):
    other = Masking.of(Facts()).apply(batch, torch.arange(len(batch)) + shift, seed, epoch)
    both = np.intersect1d(other.places.numpy(), masked.places.numpy())
    assert abs(len(both) / len(masked.places) - 0.15) < 0.005  # as often as chance has it


# Whole words


def words_of(batch: Ragged) -> torch.Tensor:
    """The number of each token's word, by a loop."""
    found, number = [], -1
    for row in range(len(batch)):
        inside = False
        for token in batch.row(row).tolist():
            if not (inside and token not in SPECIALS and CONTINUES[token]):
                number += 1
            inside = token not in SPECIALS
            found.append(number)
    return torch.tensor(found)


def test_words_are_masked_whole_within_the_budget():
    batch = batch_of(torch.randint(3, 200, (300,), generator=torch.Generator().manual_seed(2)))
    masked = Masking.of(Facts(), grouping=WHOLE).apply(batch, torch.arange(len(batch)), 0, 0)
    words, chosen = words_of(batch), torch.zeros(len(batch.values), dtype=torch.bool)
    chosen[masked.places] = True
    pieces, hit = torch.bincount(words), torch.bincount(words[chosen], minlength=int(words.max()) + 1)
    assert ((hit == 0) | (hit == pieces)).all()
    assert (hit > 1).sum() > 500
    assert ordinary(batch)[masked.places].all()
    budget = (per_row(batch, ordinary(batch).nonzero()[:, 0]) * 0.15).round().clamp(min=1)
    assert (per_row(batch, masked.places) <= budget).all()
    assert abs(len(masked.places) / int(ordinary(batch).sum()) - 0.15) < 0.002


def test_a_word_over_the_budget_is_passed_over_and_smaller_ones_taken():
    row = [2, 7, *[9] * 9, 10, 3]  # a word of ten pieces and one of one: the budget is two
    masking = Masking.of(Facts(), grouping=WHOLE)
    for epoch in range(10):
        assert masking.apply(Ragged.of([row]), torch.tensor([0]), 0, epoch).places.tolist() == [11]


def test_a_continuing_piece_after_a_special_begins_a_word():
    rows = Ragged.of([[2, 9, 9, 3, 9, 9, 3], [9, 9, 2]])
    masking = Masking.of(Facts(), fraction=0.5, grouping=WHOLE)
    found = {tuple(masking.apply(rows, torch.tensor([0, 1]), 0, epoch).places.tolist()) for epoch in range(20)}
    assert found == {(1, 2), (4, 5)}  # the row of one word of two has room for one piece only


def test_a_word_ends_with_its_row():
    masked = Masking.of(Facts(), grouping=WHOLE).apply(Ragged.of([[10], [9]]), torch.arange(2), 0, 0)
    assert masked.places.tolist() == [0, 1]  # as one word they would be over the budget


# Edges


def test_rows_without_candidates_have_nothing_masked():
    rows = Ragged.of([[2, 3], [], [2, 50, 3], [2, 3]])
    masked = Masking.of(Facts()).apply(rows, torch.arange(4), 0, 0)
    assert masked.places.tolist() == [3]
    empty = Masking.of(Facts(), grouping=WHOLE).apply(Ragged.of([[2, 3]]), torch.arange(1), 0, 0)
    assert len(empty.places) == 0
    assert empty.ids.tolist() == [2, 3]


def test_a_vocabulary_without_a_mask_and_a_senseless_share_are_refused():
    facts = Facts()
    facts.mask = None
    with pytest.raises(UserError, match=r"no \[MASK\]"):
        Masking.of(facts)
    with pytest.raises(UserError, match="fraction of masked tokens"):
        Masking.of(Facts(), fraction=15)


# Groups


def runs_of(masked_places: torch.Tensor, batch: Ragged) -> list[list[int]]:
    """Neighbouring chosen places of one row."""
    rows = torch.arange(len(batch)).repeat_interleave(batch.lengths)[masked_places].tolist()
    found: list[list[int]] = []
    for place, row in zip(masked_places.tolist(), rows, strict=True):
        if found and found[-1][-1] == place - 1 and rows[masked_places.tolist().index(place) - 1] == row:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def test_ngrams_keep_the_share_and_are_longer_than_words():
    batch = batch_of(torch.full((300,), 120))
    index = torch.arange(len(batch))
    words, ngrams = (Masking.of(Facts(), grouping=kind).apply(batch, index, 0, 0) for kind in (WHOLE, NGrams(WHOLE)))
    share = len(ngrams.places) / int(ordinary(batch).sum())
    assert abs(share - 0.15) < 0.005
    assert len(runs_of(ngrams.places, batch)) < 0.8 * len(runs_of(words.places, batch))


def test_the_length_of_an_ngram_falls_as_one_over_n():
    """Groups of a long text without breaks: 6/11, 3/11 and 2/11 of them have one, two and three words."""
    alone = WholeWords(torch.zeros(VOCABULARY, dtype=torch.bool))
    seen: list[torch.Tensor] = []

    def spying(tokens):
        seen.append(NGrams(alone)(tokens))
        return seen[-1]

    Masking.of(Facts(), grouping=spying).apply(Ragged.of([[7] * 60_000]), torch.arange(1), 0, 0)
    sizes = torch.bincount(seen[0])
    assert int(sizes.max()) == 3
    for length, expected in ((1, 6 / 11), (2, 3 / 11), (3, 2 / 11)):
        assert abs(float((sizes == length).float().mean()) - expected) < 0.01


def test_an_ngram_neither_leaves_its_text_nor_cuts_a_word():
    batch = batch_of(torch.full((200,), 30), seed=3)
    masked = Masking.of(Facts(), fraction=0.3, grouping=NGrams(WHOLE)).apply(batch, torch.arange(200), 1, 2)
    chosen = torch.zeros(len(batch.values), dtype=torch.bool)
    chosen[masked.places] = True
    assert not chosen[~ordinary(batch)].any()
    inside = CONTINUES[batch.values.long()] & ordinary(batch) & ordinary(batch).roll(1)
    assert (chosen[inside] == chosen.roll(1)[inside]).all()


def test_given_phrases_are_masked_as_wholes():
    units = phrases([(10, 11, 12), (10, 11), (20, 21)])
    assert units([10, 11, 12, 10, 11, 5, 20, 21, 20]) == [False, True, True, False, True, False, False, True, False]
    batch = Ragged.of([[2, 10, 11, 12, 30, 31, 32, 20, 21, 3]] * 64)
    masked = Masking.of(Facts(), fraction=0.4, grouping=PhraseUnits(units)).apply(batch, torch.arange(64), 0, 0)
    chosen = torch.zeros(len(batch.values), dtype=torch.bool)
    chosen[masked.places] = True
    table = chosen.view(64, 10)
    assert 0 < int(table[:, 1].sum()) < 64
    assert (table[:, 1] == table[:, 2]).all()
    assert (table[:, 2] == table[:, 3]).all()
    assert (table[:, 7] == table[:, 8]).all()
    assert (table[:, 4] != table[:, 5]).any()


def test_a_segmenter_says_which_tokens_go_together():
    letters = dict(enumerate("abcdefg"))
    goes_on = segmented(lambda ids: [letters[number] for number in ids], lambda text: [text[:2], text[2:5], text[5:]])
    assert goes_on([0, 1, 2, 3, 4, 5, 6]) == [False, True, False, True, True, False, True]


def test_a_token_over_the_border_of_two_units_begins_none():
    written = {1: "ab", 2: "cd", 3: "e"}
    goes_on = segmented(lambda ids: [written[number] for number in ids], lambda text: [text[:3], text[3:]])
    assert goes_on([1, 2, 3]) == [False, True, True]
