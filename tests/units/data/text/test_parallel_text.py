"""Pairs of sentences: how files are read, what is refused, and how batches are made."""

import gzip
from pathlib import Path

import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.text.batching.pair_batches import PairBatches, PairBatchFormat, pair_batch_sizes
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.formats.parallel_text import read_parallel

FORM = PairBatchFormat((0, 9), 1, torch.device("cpu"))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(name: str, text: str) -> Path:
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


# Files


def test_packed_files_are_read_as_others():
    Path("a.en.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    found = read_parallel([Path("a.en.gz"), written("a.de", "eins\r\nzwei\r\n")])
    assert (found.first, found.second) == (("one", "two"), ("eins", "zwei"))
    Path("pairs.tsv.gz").write_bytes(gzip.compress(b"one\teins\n"))
    assert read_parallel([Path("pairs.tsv.gz")]).second == ("eins",)
    assert found.take([1]).first == ("two",)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("a\nb\nc\n", "x\ny\n", "line 3 has no counterpart in b.txt"),
        ("a\n", "x\ny\n", "line 2 has no counterpart in a.txt"),
        ("a\n\nc\n", "x\ny\nz\n", "a.txt, line 2: empty"),
        ("a\nb\n", "x\n \n", "b.txt, line 2: empty"),
        ("", "", "a.txt is empty"),
    ],
)
def test_lines_without_a_counterpart_are_named(first, second, message):
    with pytest.raises(UserError) as refused:
        read_parallel([written("a.txt", first), written("b.txt", second)])
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tx\nb\n", "line 2: not a pair"),
        ("a\tx\tyou\n", "cut -f1,2"),
        ("a\t\n", "line 1: the second sentence is empty"),
    ],
)
def test_a_table_needs_two_texts_in_each_line(text, message):
    with pytest.raises(UserError) as refused:
        read_parallel([written("pairs.tsv", text)])
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "data",
    [b"plain", gzip.compress(b"some text, cut in the middle")[:-12], b"\x1f\x8b\x08"],
    ids=["not packed", "cut off", "a start alone"],  # a packed file has the time in it, which is no name
)
def test_a_broken_packed_file_is_named(data):
    Path("a.gz").write_bytes(data)
    with pytest.raises(UserError, match=r"cannot unpack a\.gz"):
        read_parallel([Path("a.gz"), Path("a.gz")])
    Path("b.gz").write_bytes(gzip.compress(b"good\n\xff bad\n"))
    with pytest.raises(UserError, match=r"b\.gz, line 2: this is not UTF-8"):
        read_parallel([Path("b.gz"), Path("b.gz")])


# Batches


def some(count: int = 200, tokens: int = 60) -> PairBatches:
    draw = torch.Generator().manual_seed(0)
    sides = [
        Ragged.of([[number + 10] * int(length) for number, length in enumerate(lengths)])
        for lengths in torch.randint(1, 12, (2, count), generator=draw)
    ]
    return PairBatches(*sides, tokens, FORM)


def test_an_epoch_has_every_pair_once_and_no_batch_has_too_many_tokens():
    batches = some()
    for epoch in (0, 1):
        made = list(batches.epoch(epoch, seed=3))
        assert len(made) == batches.steps_per_epoch()
        assert sorted(torch.cat([batch.samples for batch in made]).tolist()) == list(range(200))
        sizes = [batch.pair.source.ids.numel() for batch in made] + [batch.pair.target.ids.numel() for batch in made]
        assert max(sizes) <= 60
    assert sorted(torch.cat([batch.samples for batch in batches.whole()]).tolist()) == list(range(200))


def test_batches_are_full():
    """The next pair would have been too much: of each batch but the last."""
    lengths = some().lengths.sort().values
    begun = 0
    for size in pair_batch_sizes(lengths, 60)[:-1]:
        assert size * lengths[begun + size - 1] <= 60 < (size + 1) * lengths[begun + size]
        begun += size
    assert pair_batch_sizes(torch.tensor([70, 80]), 60) == [1, 1]  # one that is too long is alone
    assert pair_batch_sizes(torch.tensor([], dtype=torch.int64), 60) == []


def test_epochs_differ_and_can_be_begun_in_the_middle():
    batches = some()
    first, again, other = ([batch.samples.tolist() for batch in batches.epoch(epoch, seed=3)] for epoch in (0, 0, 1))
    assert first == again
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in other}
    assert [batch.samples.tolist() for batch in batches.epoch(0, 3, first=5)] == first[5:]
    lengths = [batches.lengths[torch.tensor(batch)].max() for batch in first]
    assert lengths != sorted(lengths)  # not from short to long


def test_a_target_is_asked_for_behind_the_token_that_begins_it():
    batches = PairBatches(Ragged.of([[5, 2], [6, 7, 2]]), Ragged.of([[8, 8, 2], [4, 2]]), 100, FORM)
    batch = batches.batch(torch.tensor([0, 1]))
    pair = batch.pair
    assert pair.source.ids.tolist() == [[5, 2, 0], [6, 7, 2]]
    assert pair.source.mask.tolist() == [[True, True, False], [True] * 3]
    assert pair.target.ids.tolist() == [[1, 8, 8], [1, 4, 2]]
    assert pair.target.predict_at.tolist() == [0, 1, 2, 3, 4]
    assert batch.asked_targets.tolist() == [8, 8, 2, 4, 2]
    assert batch.weight == 5
    pieces = batch.split(2)
    assert [piece.asked_targets.tolist() for piece in pieces] == [[8, 8, 2], [4, 2]]
    assert pieces[1].pair.target.ids.tolist() == [[1, 4]]
