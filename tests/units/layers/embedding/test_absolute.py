import math

import pytest
import torch
from torch import nn

from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.layers import LearnedPositions, NoPositions, NoPrefix, Prefix, SinusoidalPositions
from patchword.layers.embedding.absolute import resize_table, sinusoids
from patchword.models.resize import fit_resolution
from support.helpers import difference, pixels, randomise, tiny


def test_the_prefix_stands_in_front_and_is_counted():
    prefix, patches = randomise(Prefix(2, 8)), pixels(3, 6, 8)
    tokens, grid = prefix(patches, Grid(2, 3))
    assert grid == Grid(2, 3, prefix=2)
    assert torch.equal(tokens[:, 2:], patches)
    assert torch.equal(tokens[:, :2], prefix.tokens.expand(3, -1, -1))


def test_neutral_parts_leave_tokens_as_they_are():
    tokens, grid = pixels(1, 6, 8), Grid(2, 3)
    assert NoPrefix()(tokens, grid) == (tokens, grid)
    assert NoPositions()(tokens, grid) is tokens


def test_learned_positions_are_added_row_for_row():
    grid = Grid(2, 3, prefix=1)
    positions, tokens = randomise(LearnedPositions(8, grid)), pixels(2, 7, 8)
    assert torch.equal(positions(tokens, grid), tokens + positions.table)


@pytest.mark.parametrize("new", [Grid(8, 8, 2), Grid(3, 7, 2), Grid(2, 2, 2)])
def test_resize_keeps_the_prefix_and_resizes_the_map(new):
    old = Grid(4, 4, prefix=2)
    table = pixels(1, old.tokens, 8)
    resized = resize_table(table, old, new)
    assert resized.shape == (1, new.tokens, 8)
    assert torch.equal(resized[:, :2], table[:, :2])
    picture = table[0, 2:].T.view(1, 8, 4, 4)
    expected = nn.functional.interpolate(picture, (new.height, new.width), mode="bicubic")
    torch.testing.assert_close(resized[0, 2:], expected[0].flatten(1).T)


def test_resize_to_the_same_grid_changes_nothing():
    grid = Grid(3, 5, prefix=1)
    table = pixels(1, grid.tokens, 8)
    torch.testing.assert_close(resize_table(table, grid, grid), table)


def test_resize_keeps_rows_and_columns_apart():
    """A table that only depends on the row must do so after a resize to a grid that is not square."""
    old, new = Grid(3, 5), Grid(6, 4)
    table = torch.arange(3.0).repeat_interleave(5).view(1, 15, 1)
    rows = resize_table(table, old, new).view(6, 4)
    torch.testing.assert_close(rows, rows[:, :1].expand(-1, 4))
    assert (rows[1:, 0] > rows[:-1, 0]).all()


def test_a_table_at_run_time_and_one_resized_beforehand_agree():
    small, large = tiny(), tiny(image=(48, 16), seed=9)
    large.load_state_dict(fit_resolution(small.state_dict(), small, large))
    images = pixels(2, 3, 48, 16)
    assert difference(large(images), small(images)) < 1e-5


def test_fit_resolution_passes_on_what_it_cannot_resize():
    small, large = tiny(), tiny(image=48)
    wrong = small.state_dict() | {"stages.0.positions.table": torch.zeros(1, 3, 32)}
    assert fit_resolution(wrong, small, large)["stages.0.positions.table"].shape == (1, 3, 32)


def test_sinusoids_by_the_papers_formula():
    table = sinusoids(5, 8, torch.device("cpu"))
    for place in range(5):
        for channel in range(4):
            angle = place / 10_000 ** (2 * channel / 8)
            assert float(table[place, channel]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(table[place, 4 + channel]) == pytest.approx(math.cos(angle), abs=1e-6)


def test_sinusoidal_positions_tell_row_and_column_and_skip_the_prefix():
    grid = Grid(3, 5, prefix=2)
    table = SinusoidalPositions(8)(torch.zeros(1, grid.tokens, 8), grid)[0]
    assert not table[:2].any()
    cells = table[2:].view(3, 5, 8)
    assert torch.equal(cells[..., :4], sinusoids(3, 4, table.device)[:, None].expand(3, 5, 4))
    assert torch.equal(cells[..., 4:], sinusoids(5, 4, table.device)[None].expand(3, 5, 4))


def test_sinusoidal_positions_need_a_width_that_four_divides():
    with pytest.raises(UserError, match="a width that 4 divides, got 10"):
        SinusoidalPositions(10)


def test_a_model_with_sinusoids_has_no_table_and_takes_any_size():
    model = tiny(position="sinusoidal")
    assert not any("positions" in name for name in model.state_dict())
    assert model(pixels(1, 3, 16, 64)).shape == (1, 7)
    shuffled = pixels(1, 3, 32, 32).unflatten(2, (4, 8)).flip(2).flatten(2, 3)
    assert difference(model(shuffled), model(pixels(1, 3, 32, 32))) > 1e-2  # order matters
