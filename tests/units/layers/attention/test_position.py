"""Positions inside attention, against loops over all pairs and all groups."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import patchword
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import (
    Attention,
    Interlaced,
    LocalEnhancement,
    Partition,
    Pattern,
    RelativeTable,
    Windows,
    members,
)
from patchword.layers.attention.position import resize_offsets
from support.helpers import difference, pixels, randomise

HEADS = 3
QUERY = torch.zeros(1, HEADS, 1, 4)


def table(window: Grid, heads: int = HEADS) -> RelativeTable:
    part = RelativeTable(heads, window)
    torch.nn.init.normal_(part.table)
    return part


def bias_of(part: RelativeTable, group: Grid) -> Tensor:
    return part.bias(QUERY, QUERY, group)


# Relative tables


@pytest.mark.parametrize("window", [Grid(3, 3), Grid(2, 4), Grid(5, 1), Grid(1, 1), Grid(4, 3)], ids=str)
def test_the_bias_of_a_pair_is_the_tables_row_of_its_offset(window):
    part = table(window)
    biases = bias_of(part, window)
    assert biases.shape == (HEADS, window.tokens, window.tokens)
    for query in range(window.tokens):
        for key in range(window.tokens):
            down = query // window.width - key // window.width + window.height - 1
            right = query % window.width - key % window.width + window.width - 1
            row = down * (2 * window.width - 1) + right
            assert torch.equal(biases[:, query, key], part.table[row]), (query, key)


@pytest.mark.parametrize("prefix", [1, 2])
def test_leading_tokens_get_no_bias(prefix):
    part = table(Grid(2, 3))
    biases = bias_of(part, Grid(2, 3, prefix))
    assert biases.shape == (HEADS, 6 + prefix, 6 + prefix)
    assert not biases[:, :prefix].any()
    assert not biases[:, :, :prefix].any()
    assert torch.equal(biases[:, prefix:, prefix:], bias_of(part, Grid(2, 3)))


@pytest.mark.parametrize(("old", "new"), [(Grid(7, 7), Grid(4, 4)), (Grid(3, 3), Grid(5, 2)), (Grid(2, 4), Grid(4, 3))])
def test_a_table_of_another_window_is_resized_as_a_picture(old, new):
    part = table(old)
    resized = resize_offsets(part.table, old, new)
    picture = part.table.T.reshape(1, HEADS, 2 * old.height - 1, 2 * old.width - 1)
    expected = F.interpolate(picture, (2 * new.height - 1, 2 * new.width - 1), mode="bicubic", align_corners=False)
    torch.testing.assert_close(resized, expected[0].flatten(1).T)
    fitted = RelativeTable(HEADS, new)
    fitted.table.data.copy_(resized)
    torch.testing.assert_close(bias_of(part, new), bias_of(fitted, new))


@pytest.mark.parametrize("new", [Grid(4, 4), Grid(3, 6), Grid(9, 2)], ids=str)
def test_resizing_keeps_a_constant_table_constant(new):
    constant = torch.tensor([1.0, -2.0, 0.5]).expand(25, HEADS)
    expected = constant[:1].expand((2 * new.height - 1) * (2 * new.width - 1), HEADS)
    torch.testing.assert_close(resize_offsets(constant, Grid(3, 3), new), expected)


def test_resizing_keeps_rows_and_columns_apart():
    """A table that depends on the row's offset alone must do so after a change to a window that is not square."""
    rows = torch.arange(5.0).repeat_interleave(7)[:, None]
    resized = resize_offsets(rows, Grid(3, 4), Grid(5, 2)).view(9, 3)
    torch.testing.assert_close(resized, resized[:, :1].expand(-1, 3))
    assert (resized[1:, 0] > resized[:-1, 0]).all()


def test_a_table_for_its_own_window_is_used_as_it_is():
    part = table(Grid(3, 4))
    assert resize_offsets(part.table, Grid(3, 4), Grid(3, 4, prefix=1)) is part.table


def test_a_bias_passes_its_gradient_to_every_offset():
    part = table(Grid(2, 3))
    bias_of(part, Grid(2, 3)).sum().backward()
    pairs = torch.tensor([1.0, 2.0, 1.0])[:, None] * torch.tensor([1.0, 2.0, 3.0, 2.0, 1.0])  # how many have an offset
    assert torch.equal(part.table.grad, pairs.flatten()[:, None].expand(-1, HEADS))


@torch.no_grad()
def test_the_bias_is_added_to_the_scores():
    attention, grid = randomise(Attention(12, HEADS, patterns=[Pattern(position=table(Grid(2, 3)))])), Grid(2, 3)
    tokens = pixels(2, 6, 12)
    query, key, value = (
        part.unflatten(-1, (HEADS, 4)).transpose(1, 2) for part in attention.projection.joint(tokens).chunk(3, -1)
    )
    weights = (query @ key.mT / 2 + bias_of(attention.patterns[0].position, grid)).softmax(-1)
    expected = attention.output((weights @ value).transpose(1, 2).flatten(2))
    assert difference(attention(tokens, Scope(grid=grid)), expected) < 1e-5


# LePE


def enhanced(partition: Partition, grid: Grid, tokens: Tensor) -> Tensor:
    """What LePE alone adds: attention whose scores and values are replaced by nothing but the enhancement."""
    part = randomise(LocalEnhancement(tokens.shape[-1]))
    groups = partition.split(tokens, grid)
    value = groups.unflatten(-1, (2, -1)).transpose(1, 2)
    local = part.enhance(torch.zeros_like(value), value, partition.inner(grid))
    return partition.merge(local.transpose(1, 2).flatten(2), grid)


@pytest.mark.parametrize("grid", [Grid(4, 6), Grid(5, 7)], ids=str)
@pytest.mark.parametrize("partition", [Windows(None, 2), Windows(3, None), Windows(2, 3), Interlaced(2, None)], ids=str)
@torch.no_grad()
def test_local_enhancement_is_a_convolution_inside_each_group(partition, grid):
    """Each group alone is convolved, and beyond its border there is nothing: zeros, as where a group is padded."""
    tokens = pixels(2, grid.tokens, 8)
    part, answer = randomise(LocalEnhancement(8)), torch.zeros(2, grid.tokens, 8)
    inner = partition.inner(grid)
    for group in members(partition, grid.tokens, grid):
        real = group >= 0
        values = torch.zeros(2, inner.tokens, 8)
        values[:, real] = tokens[:, group[real]]
        feature_map = values.transpose(1, 2).view(2, 8, inner.height, inner.width)
        local = F.conv2d(feature_map, part.convolution.weight, part.convolution.bias, padding=1, groups=8)
        answer[:, group[real]] = local.flatten(2).transpose(1, 2)[:, real]
    assert difference(enhanced(partition, grid, tokens), answer) < 1e-5


@torch.no_grad()
def test_at_the_border_of_a_window_the_neighbour_outside_is_not_seen():
    grid, tokens = Grid(2, 4), pixels(1, 8, 8)
    other = tokens.clone()
    other.view(1, 2, 4, 8)[:, :, 2:] += 1  # the right one of two windows
    left = [0, 1, 4, 5]
    assert torch.equal(
        enhanced(Windows(None, 2), grid, other)[:, left], enhanced(Windows(None, 2), grid, tokens)[:, left]
    )
    whole = Windows(None, None)
    assert difference(enhanced(whole, grid, other)[:, left], enhanced(whole, grid, tokens)[:, left]) > 0.1


@torch.no_grad()
def test_local_enhancement_is_added_and_leaves_leading_tokens_alone():
    part, grid = randomise(LocalEnhancement(8)), Grid(2, 3, prefix=2)
    value, attended = pixels(1, 2, 8, 4), pixels(1, 2, 8, 4, seed=5)
    answer = part.enhance(attended, value, grid)
    assert torch.equal(answer[:, :, :2], attended[:, :, :2])
    without = part.enhance(torch.zeros(1, 2, 6, 4), value[:, :, 2:], Grid(2, 3))
    torch.testing.assert_close(answer[:, :, 2:], attended[:, :, 2:] + without)


# In a model


@pytest.mark.parametrize("window", [4, 5])
@torch.no_grad()
def test_a_windows_table_at_run_time_and_one_resized_beforehand_agree(window, tmp_path):
    """A map smaller than the window: the group is the map, and the table is resized for it."""
    model = randomise(patchword.create("swin-mini", depths=(2,), heads=(2,), image=2 * window)).eval()
    patchword.save(model, tmp_path / "model")
    smaller = patchword.load(tmp_path / "model", window=window)
    images = pixels(2, 1, 2 * window, 2 * window)
    assert smaller.stages[0].encoder.blocks[0].attention.sublayer.patterns[0].position.window == Grid(window, window)
    assert difference(smaller(images), model(images)) < 1e-5
