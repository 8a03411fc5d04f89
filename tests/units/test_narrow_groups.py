"""A product and a sum by groups of warps are the plain way: acted out on a CPU (gluon_by_hand)."""

import pytest
import torch
from gluon_by_hand import Described, act

from patchword.kernels.narrow import plain_product_onto

pytest.importorskip("triton.experimental.gluon")
from patchword.kernels import narrow_groups as kernel


def given(rows, width):
    generator = torch.Generator().manual_seed(rows)

    def normal(*shape, by=1.0):
        return torch.randn(*shape, generator=generator) * by

    return normal(rows, width), normal(rows, width), normal(width, width, by=width**-0.5), normal(width)


def by_groups(tokens, branch, matrix, bias, programs=1):
    width, answer = tokens.shape[1], torch.full_like(tokens, torch.nan)
    pieces = [Described(branch, 64, width), Described(matrix, width, width), bias, Described(answer, 64, width)]
    act(kernel.onto_by_groups, programs, tokens, *pieces, len(tokens))
    return answer


def error(found, *parts):
    expected = plain_product_onto(*(part.double() for part in parts))
    return float((found.double() - expected).norm() / expected.norm())


@pytest.mark.parametrize(("rows", "programs"), [(1, 1), (192, 1), (1000, 2)])
def test_it_is_the_plain_way(rows, programs):
    parts = given(rows, 64)
    assert error(by_groups(*parts, programs=programs), *parts) < 1e-6


@pytest.mark.parametrize("wrong", range(4))
def test_a_wrong_number_is_seen(wrong):
    parts = given(70, 64)
    others = [part.flip(0) if number == wrong else part for number, part in enumerate(parts)]
    assert error(by_groups(*others), *parts) > 1e-3
