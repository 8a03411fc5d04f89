"""Learnable Fourier features against Algorithm 1 of their paper."""

import math

import pytest
import torch
from torch import Tensor

import patchword
from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.layers import FourierFeatures, FourierPositions, FourierTextPositions
from support.helpers import difference, pixels


def by_hand(part: FourierFeatures, place: Tensor) -> Tensor:
    """One token: (groups, dimensions) -> (width,)"""
    parts = []
    for group in place:
        angles = [float(group.float() @ column) for column in part.frequencies.t()]
        waves = [math.cos(angle) for angle in angles] + [math.sin(angle) for angle in angles]
        features = torch.tensor(waves) / math.sqrt(len(waves))
        inner = part.up @ features + part.up_bias
        inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        parts.append(part.down @ inner + part.down_bias)
    return torch.cat(parts)


@pytest.mark.parametrize(("dimensions", "groups"), [(1, 1), (2, 1), (2, 3)])
@torch.no_grad()
def test_it_equals_the_algorithm(dimensions, groups):
    part = FourierFeatures(6, dimensions, groups=groups, features=10, hidden=7, gamma=3.0)
    part.up_bias.normal_()
    part.down_bias.normal_()
    places = torch.randint(0, 9, (4, groups, dimensions), generator=torch.Generator().manual_seed(1))
    expected = torch.stack([by_hand(part, place) for place in places])
    assert difference(part(places), expected) < 1e-5
    part.frequencies *= 1.1
    assert difference(part(places), expected) > 1e-3


def test_the_frequencies_spread_by_one_over_gamma():
    for gamma in (2.0, 10.0):
        torch.manual_seed(0)
        frequencies = FourierFeatures(8, features=20_000, hidden=2, gamma=gamma).frequencies
        assert float(frequencies.detach().std()) == pytest.approx(1 / gamma, rel=0.05)


def test_a_model_leaves_the_frequencies_as_they_start():
    """Matrices of a BERT start at N(0, 0.02); these are no matrices."""
    part = patchword.create("bert-tiny", position="fourier").embedding.positions
    assert float(part.features.frequencies.detach().std()) == pytest.approx(0.1, rel=0.3)


@torch.no_grad()
def test_on_an_image_a_place_is_a_row_and_a_column():
    part, grid = FourierPositions(8), Grid(3, 5, prefix=2)
    added = part(torch.zeros(1, grid.tokens, 8), grid)[0]
    assert not added[:2].any()
    for row in range(3):
        for column in range(5):
            expected = by_hand(part.features, torch.tensor([[row, column]]))
            assert difference(added[2 + 5 * row + column], expected) < 1e-5


@torch.no_grad()
def test_it_knows_places_between_and_beyond():
    part = FourierTextPositions(8)
    whole = part(torch.arange(100))
    assert whole.isfinite().all()
    near = part.features(torch.tensor([[[3.001]]]))[0] - whole[3]
    assert 0 < float(near.abs().max()) < 1e-2 * float(whole.abs().max())
    assert patchword.create("vit-exercise", position="fourier")(pixels(1, 1, 28, 40)).isfinite().all()


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="Fourier"):
        FourierFeatures(8, features=7)
    with pytest.raises(UserError, match="Fourier"):
        FourierFeatures(8, groups=3)
