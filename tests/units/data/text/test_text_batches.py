"""Rows of different length, batches of texts, and work done ahead."""

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from patchword.core.work_sharing import SINGLE
from patchword.data.text.batching.batches import (
    IGNORE,
    BatchFormat,
    Examples,
    TextBatch,
    TextBatches,
    bucketed,
    prefetch_batches,
)
from patchword.data.text.batching.prefetch import prefetch
from patchword.data.text.batching.ragged import Ragged, ends
from patchword.training.parallel.process_group import DataParallel

PADDED, IN_ROW = BatchFormat(0, False, torch.device("cpu")), BatchFormat(0, True, torch.device("cpu"))


def examples_of(lengths: list[int], targets: bool = False) -> Examples:
    """Each token is 100 times the number of its text and its place, so that nothing can be mixed up."""
    rows = [[100 * (number + 1) + place for place in range(length)] for number, length in enumerate(lengths)]
    segments = [[int(place > length // 2) for place in range(length)] for length in lengths]
    asked = [[place if place % 3 == 1 else IGNORE for place in range(length)] for length in lengths]
    return Examples(
        "made up",
        Ragged.of(rows),
        Ragged.of(segments, torch.uint8),
        torch.arange(len(lengths)),
        labels=torch.arange(len(lengths)) % 3,
        targets=Ragged.of(asked) if targets else None,
    )


def lengths_of(count: int, seed: int = 0) -> list[int]:
    return torch.randint(1, 40, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


# Ragged


def test_rows_come_back_as_they_went_in():
    rows = [[3, 1, 4], [], [1], [5, 9]]
    ragged = Ragged.of(rows)
    assert len(ragged) == 4
    assert ragged.values.dtype == torch.int32
    assert ragged.offsets.tolist() == [0, 3, 3, 4, 6]
    assert ragged.lengths.tolist() == [3, 0, 1, 2]
    assert [ragged.row(number).tolist() for number in range(4)] == rows


@pytest.mark.parametrize("index", [[0, 1, 2, 3], [3, 0], [2, 2, 1, 0, 3, 3], []])
def test_taken_rows_stand_in_the_order_asked_for(index):
    rows = [[3, 1, 4], [], [1], [5, 9]]
    taken = Ragged.of(rows).take(torch.tensor(index, dtype=torch.int64))
    assert [taken.row(number).tolist() for number in range(len(taken))] == [rows[number] for number in index]


def test_padding_fills_the_ends_of_short_rows():
    ragged = Ragged.of([[3, 1, 4], [], [1]])
    assert ragged.padded(-7).tolist() == [[3, 1, 4], [-7, -7, -7], [1, -7, -7]]
    assert ragged.mask().tolist() == [[True] * 3, [False] * 3, [True, False, False]]


def test_no_rows_are_rows_too():
    empty = Ragged.of([])
    assert (len(empty), empty.padded(0).shape, empty.mask().shape) == (0, (0, 0), (0, 0))
    assert ends(torch.zeros(0, dtype=torch.int64)).tolist() == [0]


# The order


@pytest.mark.parametrize(("count", "size"), [(64, 8), (67, 8), (1000, 4), (8, 8), (3, 8), (1, 1)])
def test_an_epoch_has_every_text_at_most_once_and_leaves_out_less_than_a_batch(count, size):
    lengths = torch.tensor(lengths_of(count))
    batches = bucketed(lengths, size, seed=5, epoch=2)
    taken = torch.cat(batches)
    assert len(taken.unique()) == len(taken) == (count // size * size or count)
    assert all(len(batch) == min(size, count) for batch in batches)
    assert len(batches) == TextBatches(examples_of(lengths.tolist()), size, PADDED).steps_per_epoch()


def test_what_is_left_out_is_taken_in_another_epoch():
    lengths = torch.tensor(lengths_of(67))
    taken = torch.cat([index for epoch in range(8) for index in bucketed(lengths, 8, 5, epoch)])
    assert len(taken.unique()) == 67


def test_the_order_follows_from_seed_and_epoch_alone():
    lengths = torch.tensor(lengths_of(100))
    orders = {
        (seed, epoch): torch.cat(bucketed(lengths, 8, seed, epoch)).tolist() for seed in (0, 1) for epoch in (0, 1)
    }
    assert torch.cat(bucketed(lengths, 8, 1, 0)).tolist() == orders[1, 0]
    assert len({tuple(order) for order in orders.values()}) == 4


def test_texts_of_like_length_are_together_but_batches_are_not_sorted():
    lengths = torch.tensor(lengths_of(3200, seed=1))
    batches = bucketed(lengths, 16, 0, 0)
    tokens = sum(int(lengths[index].max()) * len(index) for index in batches)
    assert tokens < 1.05 * int(lengths.sum())  # shuffled at random it would be nearly twice as many
    longest = torch.tensor([int(lengths[index].max()) for index in batches])
    steps = longest.diff()
    assert (steps > 0).any()
    assert (steps < 0).any()
    assert abs(float(torch.corrcoef(torch.stack([longest.float(), torch.arange(len(longest)).float()]))[0, 1])) < 0.3


@pytest.mark.parametrize("first", [0, 1, 5, 11, 12])
def test_an_epoch_goes_on_from_any_batch(first):
    batches = TextBatches(examples_of(lengths_of(100)), 8, PADDED)
    whole = [batch.ids.values.tolist() for batch in batches.epoch(3, 7)]
    assert [batch.ids.values.tolist() for batch in batches.epoch(3, 7, first)] == whole[first:]


def test_the_whole_set_is_every_text_once_longest_first():
    lengths = lengths_of(50)
    batches = list(TextBatches(examples_of(lengths), 8, PADDED).whole())
    samples = torch.cat([batch.samples for batch in batches])
    assert sorted(samples.tolist()) == list(range(50))
    assert [lengths[number] for number in samples] == sorted(lengths, reverse=True)


# A batch


def batch_of(lengths: list[int], form: BatchFormat, targets_only: bool = False) -> TextBatch:
    examples = examples_of(lengths, targets=True)
    batch = examples.batch(torch.arange(len(lengths)), form)
    return TextBatch(batch.ids, batch.segments, batch.samples, form, batch.labels, batch.targets, targets_only)


def output(batch: TextBatch) -> list[list[tuple[int, int, int]]]:
    """id, segment and target of each token of each text, as a model would see them"""
    text = batch.text
    shape, targets = text.ids.shape, batch.flat_targets.view(text.ids.shape)
    there = torch.ones(shape, dtype=torch.bool) if text.mask is None else text.mask
    owner = (
        text.packed.sequence_id if text.packed is not None else torch.arange(len(batch))[:, None].expand(shape)[there]
    )
    triples = torch.stack([text.ids[there], text.segments[there], targets[there]], -1)
    return [triples[owner == number].tolist() for number in range(len(batch))]


@pytest.mark.parametrize("lengths", [[4, 1, 7, 3], [5, 5, 5], [1]])
def test_padded_and_in_a_row_hold_the_same(lengths):
    padded, packed = batch_of(lengths, PADDED), batch_of(lengths, IN_ROW)
    assert output(padded) == output(packed)
    assert padded.text.texts == packed.text.texts == len(lengths)
    assert packed.text.ids.shape == (1, sum(lengths))
    assert packed.text.mask is None
    assert packed.text.packed.position_id.tolist() == [place for length in lengths for place in range(length)]
    assert (padded.text.mask is None) == (len(set(lengths)) == 1)
    assert padded.weight == packed.weight


def test_padding_is_the_pad_token_and_asks_nothing():
    form = BatchFormat(9, False, torch.device("cpu"))
    batch = batch_of([2, 4], form)
    assert batch.text.ids.tolist() == [[100, 101, 9, 9], [200, 201, 202, 203]]
    assert batch.flat_targets.tolist() == [IGNORE, 1, IGNORE, IGNORE, IGNORE, 1, IGNORE, IGNORE]


@pytest.mark.parametrize("form", [PADDED, IN_ROW])
def test_asked_places_are_those_of_the_targets(form):
    batch = batch_of([4, 8, 2], form, targets_only=True)
    places = batch.text.predict_at
    asked = batch.text.ids.flatten()[places].tolist()
    assert asked == [101, 201, 204, 207, 301]
    assert batch.flat_targets[places].tolist() == [1, 1, 4, 7, 1]
    assert batch_of([4], form).text.predict_at is None


def test_the_weight_counts_what_is_asked():
    assert batch_of([4, 8, 2], PADDED).weight == 5
    assert examples_of([4, 8, 2]).batch(torch.arange(3), PADDED).weight == 3
    assert batch_of([1, 1], PADDED).weight == 1  # nothing is asked; never a division by zero


@pytest.mark.parametrize("form", [PADDED, IN_ROW])
@pytest.mark.parametrize("parts", [1, 2, 3, 5, 9])
def test_pieces_cover_the_batch(form, parts):
    batch = batch_of([4, 8, 2, 6, 3], form, targets_only=True)
    pieces = batch.split(parts)
    assert 1 <= len(pieces) <= min(parts, 5)
    assert [text for piece in pieces for text in output(piece)] == output(batch)
    assert torch.cat([piece.labels for piece in pieces]).equal(batch.labels)
    assert torch.cat([piece.samples for piece in pieces]).equal(batch.samples)
    assert sum(piece.weight for piece in pieces) == batch.weight
    assert all(piece.targets_only for piece in pieces)


@pytest.mark.parametrize("form", [PADDED, IN_ROW])
@pytest.mark.parametrize("sizes", [[5], [1, 4], [2, 1, 2], [0, 3, 0, 2]])
def test_texts_behind_each_other_part_as_they_are(form, sizes):
    batch = batch_of([4, 8, 2, 6, 3], form, targets_only=True)
    batch = replace(batch, loss_weights=torch.rand(5))
    for part, index in zip(batch.apart(sizes), torch.arange(5).split(sizes), strict=True):
        expected = batch.take(index)
        assert all(map(torch.equal, tensors_of(part), tensors_of(expected)))
        assert part.targets_only
    bare = examples_of([4, 8, 2]).batch(torch.arange(3), form).apart([1, 2])
    assert [part.targets for part in bare] == [part.loss_weights for part in bare] == [None, None]
    assert not batch.apart([2, 3])[1].ids.values.equal(batch.apart([3, 2])[1].ids.values)


def tensors_of(batch: TextBatch) -> list[torch.Tensor]:
    rows = (batch.ids, batch.segments, batch.targets)
    return [
        *(part for row in rows for part in (row.values, row.offsets)),
        batch.samples,
        batch.labels,
        batch.loss_weights,
    ]


@pytest.mark.parametrize("form", [PADDED, IN_ROW])
@pytest.mark.parametrize("size", [7, 700])
@pytest.mark.parametrize("number", [None, 1])
def test_batches_made_together_are_those_made_one_by_one(form, size, number):
    """large ones are not; the texts may be dealt out to processes"""
    examples = examples_of(lengths_of(3 * size), targets=True)
    group, asked = SINGLE if number is None else DataParallel(number, 2, None), []

    def make(index: torch.Tensor) -> TextBatch:
        asked.append(len(index))
        return examples.batch(index, form)

    batches = torch.arange(3 * size).flip(0).split(size - 1)
    found = list(prefetch_batches(make, batches, group))
    assert len(found) == len(batches)
    assert len(asked) == (1 if size == 7 else len(batches))
    for batch, index in zip(found, batches, strict=True):
        expected = examples.batch(group.share(index), form)
        assert output(batch) == output(expected)
        assert batch.samples.equal(expected.samples)
        assert batch.weight == expected.weight


# Work done ahead


def test_prefetched_things_keep_their_order():
    def slow(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        return item * item

    assert list(prefetch(slow, range(40), workers=4)) == [item * item for item in range(40)]
    assert list(prefetch(slow, [], workers=2)) == []


def test_an_error_comes_where_its_item_would():
    def breaks(item: int) -> int:
        if item == 5:
            raise ValueError("the fifth")
        return item

    ahead = prefetch(breaks, range(100), workers=3)
    assert [next(ahead) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="the fifth"):
        next(ahead)
    assert list(ahead) == []


def test_stopping_early_leaves_no_threads_and_makes_little_more():
    before, made = set(threading.enumerate()), []
    ahead = prefetch(lambda item: made.append(item) or item, range(10_000), workers=2)
    assert [next(ahead) for _ in range(3)] == [0, 1, 2]
    ahead.close()
    assert set(threading.enumerate()) <= before
    assert len(made) <= 3 + 2 * 2

    for _ in prefetch(str, range(100), workers=2):
        break
    gc.collect()
    assert set(threading.enumerate()) <= before


def test_only_a_few_are_made_ahead():
    made = []
    ahead = prefetch(made.append, range(1000), workers=2)
    next(ahead)
    assert len(made) <= 5
    ahead.close()


def test_threads_that_come_later_are_left_alone_too():
    """torch sets the number for every thread to come."""
    before = torch.get_num_threads()
    list(prefetch(str, range(8), workers=2))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == before


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_fewer_items_than_workers_are_no_trouble(count):
    assert list(prefetch(str, range(count), workers=4)) == [str(item) for item in range(count)]


def test_the_threads_of_the_main_work_are_left_alone():
    before = torch.get_num_threads()
    list(prefetch(lambda item: torch.randn(64, 64) @ torch.randn(64, 64), range(8), workers=2))
    assert torch.get_num_threads() == before
