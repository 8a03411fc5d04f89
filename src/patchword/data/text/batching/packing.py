"""Batches of as many texts as a number of tokens holds, so that each costs alike, be they long or short."""

import torch
from torch import Tensor


def filled(order: Tensor, lengths: Tensor, tokens: int) -> list[Tensor]:
    """The numbers in `order`, cut where `tokens` are full; a text that is longer than that is a batch by itself.

    For texts in a row, where a batch costs what its tokens cost.
    """
    ends = lengths[order].cumsum(0)
    cuts, done, count = [], 0, len(order)
    while done < count:
        before = int(ends[done - 1]) if done else 0
        after = max(done + 1, int(torch.searchsorted(ends, before + tokens, right=True)))
        cuts.append(order[done:after])
        done = after
    return cuts


def fitted(lengths: Tensor, tokens: int, in_row: bool) -> list[Tensor]:
    """All texts, the longest first, in batches of `tokens` at most, padding included where there is any."""
    order = lengths.argsort(descending=True, stable=True)
    if in_row:
        return filled(order, lengths, tokens)
    cuts, done = [], 0
    while done < len(order):
        after = done + max(1, tokens // max(1, int(lengths[order[done]])))
        cuts.append(order[done:after])
        done = after
    return cuts
