"""Maps of tokens for attention patterns."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.colors import to_rgb
from torch import Tensor

from patchword.analysis.attention_pattern import AttentionPattern, KeyReceptiveField
from patchword.core.grid import Grid
from patchword.reports.attention_pattern.drawing import PADDING, TokenMap
from patchword.reports.colors import FAINT, HIGHLIGHT, INDIRECT

_OTHERS = np.array([to_rgb("#dde2e7"), to_rgb("#eef1f4")])  # groups of other tokens, like a chessboard
_MASKED = np.array(to_rgb("#b9c2ca"))  # regions that other regions of their group do not attend to


def on_map(pattern: AttentionPattern, token: int) -> TokenMap:
    """Return every token at its position in the image, with the padding around."""
    places, padded = pattern.places
    slots = np.empty(padded.tokens, dtype=np.int64)
    slots[places.flatten().numpy()] = np.arange(padded.tokens)
    return _grouped(pattern, slots[padded.prefix :].reshape(padded.height, padded.width), token)


def as_computed(pattern: AttentionPattern, token: int) -> TokenMap:
    """Return every token where it is when attention runs: group beside group."""
    inner = pattern.partition.inner(pattern.grid)
    assert inner is not None, "a group with regions has a shape"
    rows, columns = pattern.arrangement
    slots = np.arange(pattern.queries.numel()).reshape(rows, columns, inner.height, inner.width).transpose(0, 2, 1, 3)
    return _grouped(pattern, slots.reshape(rows * inner.height, columns * inner.width), token)


def receptive_field_map(steps: Sequence[Tensor], pattern: AttentionPattern, token: int) -> TokenMap:
    """Return the receptive field of a token after each step, the first strongest; with the padding of the pattern."""
    grid, padded = pattern.grid, pattern.places[1]
    outer = ((0, padded.height - grid.height), (0, padded.width - grid.width))
    reached = [np.pad(_map(step, grid), outer) for step in steps]
    colours = np.tile(to_rgb(FAINT), (padded.height, padded.width, 1))
    for number, places in reversed(list(enumerate(reached))):
        colours[places] = to_rgb(INDIRECT if number else HIGHLIGHT)
    hatches = np.pad(np.zeros((grid.height, grid.width), dtype=np.int64), outer, constant_values=PADDING)
    return TokenMap(colours, hatches + 1, reached[-1], hatches, _place(token, grid), indirect=len(steps) > 1)


def made_into_keys(
    pattern: AttentionPattern, made: KeyReceptiveField, token: int
) -> tuple[TokenMap, TokenMap, tuple[int, int]]:
    """Return the tokens, grouped by their key; the keys; height and width of the receptive field of a key.

    The query attends to all keys. A frame surrounds the tokens of one key, and that key. A token equally near to two
    keys is in the group of the first.
    """
    grid, key_grid = pattern.grid, pattern.key_grid
    rows, columns = _nearest(made.rows), _nearest(made.columns)
    keys = np.arange(key_grid.height * key_grid.width).reshape(key_grid.height, key_grid.width)
    by_token, chess = keys[rows][:, columns], _chessboard(key_grid.height, key_grid.width)
    row, column = _place(token, grid)
    high, wide = made.rows[rows[row]].nonzero(), made.columns[columns[column]].nonzero()
    tokens = TokenMap(
        colours=np.where((by_token == keys[rows[row], columns[column]])[..., None], to_rgb(HIGHLIGHT), chess[by_token]),
        groups=by_token + 1,
        outlined=np.zeros_like(by_token),
        hatches=np.zeros_like(by_token),
        token=(row, column),
        leading=_leading(grid),
        frame=(int(wide[0]), int(high[0]), len(wide), len(high)),
    )
    key_map = TokenMap(
        colours=np.tile(to_rgb(HIGHLIGHT), (*keys.shape, 1)),
        groups=keys + 1,
        outlined=np.ones_like(keys),
        hatches=np.zeros_like(keys),
        leading=_leading(key_grid),
        frame=(int(columns[column]), int(rows[row]), 1, 1),
    )
    return tokens, key_map, (int(made.rows.sum(1).max()), int(made.columns.sum(1).max()))


def _grouped(pattern: AttentionPattern, slots: np.ndarray, token: int) -> TokenMap:
    """Draw the groups of a map. slots: (rows, columns), which member of which group is at each position."""
    tokens = pattern.queries.flatten().numpy()[slots]
    groups, regions = slots // pattern.size, pattern.regions.flatten().numpy()[slots]
    padding = tokens < 0
    attended_keys = pattern.attended_keys(torch.arange(pattern.grid.tokens) == token).numpy()[tokens] & ~padding
    others = np.where(regions[..., None] > 0, _MASKED, _chessboard(*pattern.arrangement)[groups])
    row, column = np.argwhere(tokens == token)[0].tolist()
    return TokenMap(
        colours=np.where(attended_keys[..., None], to_rgb(HIGHLIGHT), others),
        groups=np.where(padding, 0, 1 + groups * (1 + regions.max()) + regions),
        outlined=attended_keys,
        hatches=np.where(padding, PADDING, regions),
        token=(row, column),
        leading=_leading(pattern.grid),
    )


def _chessboard(rows: int, columns: int) -> np.ndarray:
    """Return a light grey per group, (rows * columns, 3); neighbours differ."""
    odd = (np.arange(rows)[:, None] + np.arange(columns)[None]) % 2
    greys: np.ndarray = _OTHERS[odd.flatten()]
    return greys


def _leading(grid: Grid) -> str:
    return ("", "[CLS]")[grid.prefix] if grid.prefix < 2 else f"{grid.prefix} leading tokens"


def _nearest(made: Tensor) -> np.ndarray:
    """Return the key whose centre is nearest to each token: (keys, tokens) along one side -> (tokens,)."""
    places = torch.arange(made.shape[1])
    middles = (made * places).sum(1) / made.sum(1)
    nearest: np.ndarray = (places[None] - middles[:, None]).abs().argmin(0).numpy()
    return nearest


def _map(tokens: Tensor, grid: Grid) -> np.ndarray:
    on_grid: np.ndarray = tokens[grid.prefix :].view(grid.height, grid.width).numpy()
    return on_grid


def _place(token: int, grid: Grid) -> tuple[int, int]:
    return divmod(token - grid.prefix, grid.width)
