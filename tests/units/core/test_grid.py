import dataclasses

import pytest
import torch

from patchword.core.grid import Grid, sides


def test_sides_of_one_number_and_of_two():
    assert sides(7) == (7, 7)
    assert sides((3, 5)) == (3, 5)


def test_tokens_counts_the_prefix():
    assert Grid(3, 5).tokens == 15
    assert Grid(3, 5, prefix=2).tokens == 17


@pytest.mark.parametrize("prefix", [0, 2])
def test_tokens_lie_row_by_row_behind_the_prefix(prefix):
    grid = Grid(2, 3, prefix)
    tokens = torch.arange(grid.tokens * 4).view(1, grid.tokens, 4)
    leading, feature_map = grid.to_map(tokens)
    assert torch.equal(leading, tokens[:, :prefix])
    assert feature_map.shape == (1, 4, 2, 3)
    for row in range(2):
        for column in range(3):
            assert torch.equal(feature_map[0, :, row, column], tokens[0, prefix + 3 * row + column])


def test_to_tokens_is_the_way_back():
    grid = Grid(2, 5, prefix=1)
    tokens = torch.randn(3, grid.tokens, 4)
    assert torch.equal(grid.to_tokens(*grid.to_map(tokens)), tokens)


def test_a_grid_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Grid(1, 2).height = 3
