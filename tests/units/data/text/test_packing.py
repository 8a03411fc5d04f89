"""Batches by their number of tokens: every text once, none too full, and as few as can be in that order."""

import pytest
import torch

from patchword.data.text.batching.batches import BatchFormat, Examples, TextBatches
from patchword.data.text.batching.packing import batches_by_tokens, pack_by_tokens
from patchword.data.text.batching.ragged import Ragged

LENGTHS = torch.randint(1, 90, (300,), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("tokens", [90, 257, 10**6])
def test_batches_are_as_full_as_the_order_allows(tokens):
    order = torch.randperm(300, generator=torch.Generator().manual_seed(4))
    batches = pack_by_tokens(order, LENGTHS, tokens)
    assert torch.cat(batches).equal(order)
    sums = [int(LENGTHS[batch].sum()) for batch in batches]
    assert max(sums) <= tokens
    for total, following in zip(sums, batches[1:], strict=False):
        assert total + int(LENGTHS[following[0]]) > tokens


def test_a_text_that_is_too_long_is_alone():
    lengths = torch.tensor([3, 50, 2, 2])
    assert [batch.tolist() for batch in pack_by_tokens(torch.arange(4), lengths, 8)] == [[0], [1], [2, 3]]
    assert [batch.tolist() for batch in batches_by_tokens(lengths, 8, packed=False)] == [[1], [0, 2], [3]]
    assert pack_by_tokens(torch.arange(0), torch.arange(0), 8) == []


@pytest.mark.parametrize("packed", [True, False])
def test_what_is_asked_comes_once_and_the_longest_first(packed):
    ids = Ragged.of([[1] * length for length in LENGTHS.tolist()])
    examples = Examples("some", ids, Ragged(torch.zeros_like(ids.values), ids.offsets), torch.arange(300))
    batches = list(TextBatches(examples, 8, BatchFormat(0, packed, torch.device("cpu"))).packed(400))
    assert sorted(torch.cat([batch.samples for batch in batches]).tolist()) == list(range(300))
    assert all(batch.text.ids.numel() <= 400 for batch in batches)
    longest = [int(batch.ids.lengths.max()) for batch in batches]
    assert longest == sorted(longest, reverse=True)
    least = -(-int(LENGTHS.sum()) // 400)
    assert len(batches) <= least + (5 if packed else 10)
