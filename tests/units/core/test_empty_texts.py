"""A text without tokens has a vector of zeros, packed or padded, and leaves its neighbours alone."""

import pytest
import torch

from patchword.core.text import Packed, Text

TOKENS = torch.randn(1, 5, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("lengths", [[0, 3, 2], [3, 0, 2], [3, 2, 0], [2, 3]])
@pytest.mark.parametrize("pool", ["first", "last", "mean"])
def test_packed_texts(lengths, pool):
    text = Text(torch.zeros(1, 5, dtype=torch.int64), packed=Packed.of(torch.tensor(lengths)))
    parts = TOKENS[0].split(lengths)
    of = {"first": lambda part: part[0], "last": lambda part: part[-1], "mean": lambda part: part.mean(0)}[pool]
    expected = torch.stack([of(part) if len(part) else torch.zeros(3) for part in parts])
    assert torch.allclose(getattr(text, pool)(TOKENS), expected, atol=1e-6)


@pytest.mark.parametrize("pool", ["last", "mean"])
def test_padded_texts(pool):
    mask = torch.tensor([[True, True, False], [False, False, False]])
    found = getattr(Text(torch.zeros(2, 3, dtype=torch.int64), mask=mask), pool)(torch.ones(2, 3, 4))
    assert torch.equal(found, torch.tensor([[1.0] * 4, [0.0] * 4]))
