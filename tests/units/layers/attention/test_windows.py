"""Windows, stripes and pales against definitions that look at two tokens of the map at a time."""

from collections.abc import Iterator
from itertools import product

import pytest
import torch

from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import Attention, Interlaced, Partition, Pattern, Windows, members, reference_attention
from support.helpers import difference, pixels, randomise

Place = tuple[int, int]
GRIDS = [Grid(6, 6), Grid(4, 6), Grid(5, 7), Grid(3, 8), Grid(2, 9), Grid(1, 1), Grid(7, 4)]
WINDOWS = [
    Windows(2, 2),
    Windows(3, 3),
    Windows(2, 3),
    Windows(3, 3, shift=1),
    Windows(4, 4, shift=2),
    Windows(2, 3, shift=1),
    Windows(None, 2),
    Windows(3, None),
    Windows(None, None),
    Windows(9, 9, shift=4),
]
INTERLACED = [Interlaced(2, 2), Interlaced(3, None), Interlaced(None, 3), Interlaced(4, 2), Interlaced(9, 9)]


def places(grid: Grid) -> list[Place]:
    return list(product(range(grid.height), range(grid.width)))


def met(partition: Partition, grid: Grid) -> set[tuple[int, int]]:
    """Which tokens read which, by the partition's own groups and mask."""
    groups = members(partition, grid.tokens, grid)
    mask = partition.mask(grid, torch.device("cpu"))
    pairs = set()
    for index, group in enumerate(groups.tolist()):
        for (i, first), (j, second) in product(enumerate(group), repeat=2):
            if first >= 0 and second >= 0 and (mask is None or mask[index, 0, i, j]):
                pairs.add((first, second))
    return pairs


def window_of(place: Place, windows: Windows, grid: Grid) -> tuple[int, int]:
    """The window that holds a place, where the grid of windows was moved down and to the right by the shift."""
    answer = []
    for coordinate, side, length in zip(place, (windows.height, windows.width), (grid.height, grid.width), strict=True):
        size = min(side or length, length)
        shift = windows.shift if length > size else 0
        answer.append((coordinate - shift) // size)  # -1: above or left of the first whole window
    return answer[0], answer[1]


def alike(grid: Grid, label: object) -> set[tuple[int, int]]:
    """Pairs of tokens that carry the same label."""
    labels = [label(place) for place in places(grid)]
    return {(i, j) for i, j in product(range(grid.tokens), repeat=2) if labels[i] == labels[j]}


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_two_tokens_meet_if_they_are_in_the_same_window_of_the_map(windows, grid):
    assert met(windows, grid) == alike(grid, lambda place: window_of(place, windows, grid))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("interlaced", INTERLACED, ids=str)
def test_two_tokens_meet_if_they_are_a_multiple_of_the_distance_apart(interlaced, grid):
    def distance(side: int | None, length: int) -> int:
        return -(-length // min(side or length, length))

    down, right = distance(interlaced.height, grid.height), distance(interlaced.width, grid.width)
    assert met(interlaced, grid) == alike(grid, lambda place: (place[0] % down, place[1] % right))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("partition", [*WINDOWS, *INTERLACED], ids=str)
def test_merging_what_was_split_changes_nothing(partition, grid):
    tokens = pixels(2, grid.tokens, 5)
    groups = partition.split(tokens, grid)
    assert groups.shape[1:] == (partition.inner(grid).tokens, 5)
    assert torch.equal(partition.merge(groups, grid), tokens)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("partition", [*WINDOWS, *INTERLACED], ids=str)
def test_every_token_is_in_one_group_and_the_rest_is_padding(partition, grid):
    groups = members(partition, grid.tokens, grid)
    assert sorted(groups[groups >= 0].tolist()) == list(range(grid.tokens))
    mask = partition.mask(grid, torch.device("cpu"))
    if mask is None:
        assert groups.numel() == grid.tokens
        return
    assert mask.shape == (len(groups), 1, groups.shape[1], groups.shape[1])
    real = groups >= 0
    assert not mask[:, 0][real[:, :, None] & ~real[:, None, :]].any()  # nobody reads padding
    assert mask[:, 0].diagonal(dim1=1, dim2=2).all()  # every query has a key, so that no softmax is empty


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("partition", [*WINDOWS, *INTERLACED], ids=str)
def test_members_of_a_group_lie_as_inner_says(partition, grid):
    """Row by row, evenly: what a table of offsets or a convolution inside the group relies on."""
    inner = partition.inner(grid)
    mask = partition.mask(grid, torch.device("cpu"))
    for index, group in enumerate(members(partition, grid.tokens, grid).tolist()):
        for (i, first), (j, second) in product(enumerate(group), repeat=2):
            if first < 0 or second < 0 or (mask is not None and not mask[index, 0, i, j]):
                continue
            down, right = _step(partition, grid)
            assert second // grid.width - first // grid.width == down * (j // inner.width - i // inner.width)
            assert second % grid.width - first % grid.width == right * (j % inner.width - i % inner.width)


def _step(partition: Partition, grid: Grid) -> tuple[int, int]:
    inner = partition.inner(grid)
    if isinstance(partition, Windows):
        return 1, 1
    return -(-grid.height // inner.height), -(-grid.width // inner.width)


def test_windows_of_a_small_map_by_hand():
    assert members(Windows(2, 2), 12, Grid(3, 4)).tolist() == [
        [0, 1, 4, 5],
        [2, 3, 6, 7],
        [8, 9, -1, -1],
        [10, 11, -1, -1],
    ]


def test_shifted_windows_of_a_small_map_by_hand():
    """Windows of 2 x 2 moved by one: one whole in the middle, the rest in pieces that the mask keeps apart."""
    windows, grid = Windows(2, 2, shift=1), Grid(4, 4)
    assert members(windows, 16, grid).tolist() == [[5, 6, 9, 10], [7, 4, 11, 8], [13, 14, 1, 2], [15, 12, 3, 0]]
    mask = windows.mask(grid, torch.device("cpu"))[:, 0].int().tolist()
    pairs = [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    rows = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert mask == [[[1] * 4] * 4, pairs, rows, torch.eye(4).int().tolist()]


def test_a_side_that_is_not_longer_than_the_window_is_one_window_and_not_shifted():
    grid = Grid(3, 8)
    assert Windows(4, 4, shift=2).inner(grid) == Grid(3, 4)
    assert members(Windows(4, 4, shift=2), 24, grid)[0].tolist() == [2, 3, 4, 5, 10, 11, 12, 13, 18, 19, 20, 21]
    assert Windows(4, 4, shift=2).mask(Grid(4, 3), torch.device("cpu")) is None


def test_a_window_that_divides_the_map_needs_no_mask_unless_it_is_shifted():
    grid, device = Grid(6, 9), torch.device("cpu")
    assert Windows(3, 3).mask(grid, device) is None
    assert Windows(3, 3, shift=1).mask(grid, device) is not None
    assert Interlaced(3, 3).mask(grid, device) is None
    assert Interlaced(4, 3).mask(grid, device) is not None


@pytest.mark.parametrize("row", range(3))
def test_stripes_are_whole_rows_or_columns(row):
    grid = Grid(3, 4)
    assert members(Windows(1, None), 12, grid)[row].tolist() == [4 * row + column for column in range(4)]
    assert members(Windows(None, 1), 12, grid)[row].tolist() == [row, 4 + row, 8 + row]


@pytest.mark.parametrize("group", range(3))
def test_a_pale_takes_every_third_row_of_nine(group):
    grid = Grid(9, 2)
    rows = [group, group + 3, group + 6]
    assert members(Interlaced(3, None), 18, grid)[group].tolist() == [
        2 * row + column for row in rows for column in (0, 1)
    ]
    turned = Grid(2, 9)
    assert members(Interlaced(None, 3), 18, turned)[group].tolist() == [*rows, *(9 + column for column in rows)]


def test_a_pale_that_does_not_divide_the_map_is_padded_at_the_end():
    """Three rows of a map of seven: every third row, and the rows 7 and 8 that are not there."""
    assert members(Interlaced(3, None), 7, Grid(7, 1)).tolist() == [[0, 3, 6], [1, 4, -1], [2, 5, -1]]


@pytest.mark.parametrize("partition", [Windows(2, 2), Windows(None, 2), Interlaced(2, None)], ids=str)
@pytest.mark.parametrize(("grid", "got"), [(None, "tokens without a grid"), (Grid(4, 4, 1), "1 leading tokens")])
def test_tokens_that_are_no_map_are_refused(partition, grid, got):
    def calls() -> Iterator[object]:
        yield lambda: partition.split(torch.zeros(1, 17, 2), grid)
        yield lambda: partition.merge(torch.zeros(4, 4, 2), grid)
        yield lambda: partition.mask(grid, torch.device("cpu"))
        yield lambda: partition.inner(grid)

    for call in calls():
        with pytest.raises(UserError, match="need a map") as caught:
            call()
        assert caught.value.got == got


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("grid", [Grid(5, 7), Grid(6, 4)], ids=str)
@pytest.mark.parametrize("partition", [Windows(3, 3, shift=1), Windows(None, 2), Interlaced(3, None)], ids=str)
@torch.no_grad()
def test_attention_in_rectangles_is_attention_with_a_mask_over_the_whole_map(partition, grid, fused):
    parted = randomise(Attention(16, 4, patterns=[Pattern(partition)]))
    whole = randomise(Attention(16, 4))
    tokens = pixels(2, grid.tokens, 16)
    mask = torch.zeros(grid.tokens, grid.tokens, dtype=torch.bool)
    mask[tuple(zip(*met(partition, grid), strict=True))] = True
    parted.core.fused = fused
    with reference_attention(whole):
        expected = whole(tokens, Scope(mask=mask, grid=grid))
        assert difference(whole(tokens, Scope(grid=grid)), expected) > 1e-2
    assert difference(parted(tokens, Scope(grid=grid)), expected) < 1e-5
