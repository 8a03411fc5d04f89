"""From meetings to maps of tokens."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.colors import to_rgb
from torch import Tensor

from patchword.analysis.attention_pattern import AttentionPattern, Footprint
from patchword.core.grid import Grid
from patchword.reports.attention_pattern.colors import faded, palette
from patchword.reports.attention_pattern.drawing import PADDING, TokenMap
from patchword.reports.plots.figures import BLUE

LATER, UNHEARD = "#80b9d9", "#e9ecef"  # what was heard through an earlier block; what was not heard of


def on_map(meeting: AttentionPattern, token: int) -> TokenMap:
    """Every token where it is in the picture, with the padding around."""
    places, padded = meeting.places
    slots = np.empty(padded.tokens, dtype=np.int64)
    slots[places.flatten().numpy()] = np.arange(padded.tokens)
    return _grouped(meeting, slots[padded.prefix :].reshape(padded.height, padded.width), token)


def as_computed(meeting: AttentionPattern, token: int) -> TokenMap:
    """Every token where it is when attention runs: group beside group."""
    inner = meeting.partition.inner(meeting.grid)
    assert inner is not None, "a group that has pieces has a shape"
    rows, columns = meeting.arrangement
    slots = np.arange(meeting.queries.numel()).reshape(rows, columns, inner.height, inner.width).transpose(0, 2, 1, 3)
    return _grouped(meeting, slots.reshape(rows * inner.height, columns * inner.width), token)


def heard(steps: Sequence[Tensor], meeting: AttentionPattern, token: int) -> TokenMap:
    """What a token has heard of after each step, the first strongest; with the padding of the meeting's map."""
    grid, padded = meeting.grid, meeting.places[1]
    outside = ((0, padded.height - grid.height), (0, padded.width - grid.width))
    reached = [np.pad(_map(step, grid), outside) for step in steps]
    colours = np.tile(to_rgb(UNHEARD), (padded.height, padded.width, 1))
    for number, places in reversed(list(enumerate(reached))):
        colours[places] = to_rgb(LATER if number else BLUE)
    hatches = np.pad(np.zeros((grid.height, grid.width), dtype=np.int64), outside, constant_values=PADDING)
    return TokenMap(colours, hatches + 1, reached[-1], hatches, _place(token, grid), later=len(steps) > 1)


def made_into_keys(
    meeting: AttentionPattern, made: Footprint, token: int
) -> tuple[TokenMap, TokenMap, tuple[int, int]]:
    """Every token in the colour of the key it is made into; these keys; height and width of what makes a key.

    A frame is around the tokens of one key, and around that key. Of two keys equally near, a token has the colour of
    the first.
    """
    grid, key_grid = meeting.grid, meeting.key_grid
    rows, columns = _nearest(made.rows), _nearest(made.columns)
    keys = np.arange(key_grid.height * key_grid.width).reshape(key_grid.height, key_grid.width)
    by_token, colours = keys[rows][:, columns], palette(key_grid.height, key_grid.width)
    row, column = _place(token, grid)
    high, wide = made.rows[rows[row]].nonzero(), made.columns[columns[column]].nonzero()
    tokens = TokenMap(
        colours=faded(colours[by_token], 0.35),
        groups=by_token + 1,
        outlined=np.zeros_like(by_token),
        hatches=np.zeros_like(by_token),
        token=(row, column),
        leading=_leading(grid),
        frame=(int(wide[0]), int(high[0]), len(wide), len(high)),
    )
    read = TokenMap(
        colours=colours[keys],
        groups=keys + 1,
        outlined=np.ones_like(keys),
        hatches=np.zeros_like(keys),
        leading=_leading(key_grid),
        frame=(int(columns[column]), int(rows[row]), 1, 1),
    )
    return tokens, read, (int(made.rows.sum(1).max()), int(made.columns.sum(1).max()))


def _grouped(meeting: AttentionPattern, slots: np.ndarray, token: int) -> TokenMap:
    """slots: (rows, columns), which member of which group is where"""
    tokens = meeting.queries.flatten().numpy()[slots]
    groups, pieces = slots // meeting.size, meeting.pieces.flatten().numpy()[slots]
    padding = tokens < 0
    reads = meeting.reads(torch.arange(meeting.grid.tokens) == token).numpy()[tokens] & ~padding
    colours = palette(*meeting.arrangement)[groups]
    others = np.where(pieces[..., None] > 0, faded(colours, 0.45), faded(colours, 0.7))
    row, column = np.argwhere(tokens == token)[0].tolist()
    return TokenMap(
        colours=np.where(reads[..., None], colours, others),
        groups=np.where(padding, 0, 1 + groups * (1 + pieces.max()) + pieces),
        outlined=reads,
        hatches=np.where(padding, PADDING, pieces),
        token=(row, column),
        leading=_leading(meeting.grid),
    )


def _leading(grid: Grid) -> str:
    return ("", "[CLS]")[grid.prefix] if grid.prefix < 2 else f"{grid.prefix} leading tokens"


def _nearest(made: Tensor) -> np.ndarray:
    """(keys, tokens) along one side -> (tokens,): the key in whose middle a token lies best"""
    places = torch.arange(made.shape[1])
    middles = (made * places).sum(1) / made.sum(1)
    nearest: np.ndarray = (places[None] - middles[:, None]).abs().argmin(0).numpy()
    return nearest


def _map(tokens: Tensor, grid: Grid) -> np.ndarray:
    on_grid: np.ndarray = tokens[grid.prefix :].view(grid.height, grid.width).numpy()
    return on_grid


def _place(token: int, grid: Grid) -> tuple[int, int]:
    return divmod(token - grid.prefix, grid.width)
