"""Batches with a fixed number of tokens, so that batches of short and long texts cost the same."""

import torch
from torch import Tensor


def pack_by_tokens(order: Tensor, lengths: Tensor, tokens: int) -> list[Tensor]:
    """Split `order` into batches of at most `tokens` tokens; a longer text is a batch of its own.

    For packed texts, where the cost of a batch is its number of tokens.
    """
    ends = lengths[order].cumsum(0)
    cuts, done, count = [], 0, len(order)
    while done < count:
        before = int(ends[done - 1]) if done else 0
        after = max(done + 1, int(torch.searchsorted(ends, before + tokens, right=True)))
        cuts.append(order[done:after])
        done = after
    return cuts


def batches_by_tokens(lengths: Tensor, tokens: int, packed: bool) -> list[Tensor]:
    """Return batches of all texts, longest first, with at most `tokens` tokens, including padding if not `in_row`."""
    order = lengths.argsort(descending=True, stable=True)
    if packed:
        return pack_by_tokens(order, lengths, tokens)
    cuts, done = [], 0
    while done < len(order):
        after = done + max(1, tokens // max(1, int(lengths[order[done]])))
        cuts.append(order[done:after])
        done = after
    return cuts
