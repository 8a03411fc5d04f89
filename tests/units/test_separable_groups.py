"""A filter and a product by groups of warps are the plain way: acted out on a CPU (gluon_by_hand)."""

import pytest
import torch
import torch.nn.functional as F
from gluon_by_hand import Described, act

from patchword.kernels.neighbours import plain_neighbours

pytest.importorskip("triton.experimental.gluon")
from patchword.kernels import separable_groups as kernel


def given(batch, height, breadth, width):
    """tokens, table of taps and of what is added, matrix, bias"""
    generator = torch.Generator().manual_seed(height)

    def normal(*shape, by=1.0):
        return torch.randn(*shape, generator=generator) * by

    tokens = normal(batch, height * breadth, width)
    return tokens, normal(10, width), normal(width, width, by=width**-0.5), normal(width)


def by_groups(tokens, table, matrix, bias, height, breadth, programs=1):
    batch, length, width = tokens.shape
    answer = torch.full((batch * length, width), torch.nan)
    pieces = Described(matrix, width, width), bias, Described(answer, 64, width)
    act(kernel.projected_by_groups, programs, tokens, table, *pieces, batch * length, height, breadth)
    return answer.view_as(tokens)


def error(found, tokens, table, matrix, bias, height, breadth):
    tokens, table, matrix, bias = (part.double() for part in (tokens, table, matrix, bias))
    filtered = plain_neighbours(tokens, table[:9].t().reshape(-1, 1, 3, 3), table[9], height, breadth)
    expected = F.linear(filtered, matrix, bias)
    return float((found.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize(("batch", "height", "breadth", "programs"), [(1, 1, 1, 1), (3, 5, 4, 1), (9, 7, 6, 2)])
@pytest.mark.parametrize("width", [64, 128])
def test_it_is_the_plain_way(batch, height, breadth, programs, width):
    parts = given(batch, height, breadth, width)
    found = by_groups(*parts, height, breadth, programs)
    assert error(found, *parts, height, breadth) < 1e-6


@pytest.mark.parametrize("wrong", range(4))
def test_a_wrong_number_is_seen(wrong):
    parts = given(2, 5, 4, 64)
    others = [part.flip(0) if number == wrong else part for number, part in enumerate(parts)]
    assert error(by_groups(*others, 5, 4), *parts, 5, 4) > 1e-3
