"""The cross-entropy of some rows of scores, and its slope: in Triton where it is there, else in torch's steps."""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


@cache
def has_triton() -> bool:
    return find_spec("triton") is not None


def loss_rows(scores: Tensor, targets: Tensor, words: int) -> tuple[Tensor, Tensor, Tensor]:
    """(rows, words or more) -> losses, the likeliest words, log of the sum of exponents, each (rows,).

    words: how many columns count; the others are there to fill a row.
    """
    if scores.is_cuda and has_triton():
        from patchword.kernels.linear_cross_entropy.triton import loss_rows as fused

        return fused(scores, targets, words)
    return torch_losses(scores, targets, words)


def slope_rows(scores: Tensor, totals: Tensor, targets: Tensor, slopes: Tensor, words: int) -> Tensor:
    """(softmax - 1 at the target) * slope, in the precision of the scores; 0 in the columns that do not count"""
    if scores.is_cuda and has_triton():
        from patchword.kernels.linear_cross_entropy.triton import slope_rows as fused

        return fused(scores, totals, targets, slopes, words)
    return torch_slopes(scores, totals, targets, slopes, words)


def torch_losses(scores: Tensor, targets: Tensor, words: int) -> tuple[Tensor, Tensor, Tensor]:
    counted = scores[:, :words].float()
    totals, asked = counted.logsumexp(-1), targets >= 0
    reached = counted.gather(1, targets.clamp(min=0)[:, None])[:, 0]
    return torch.where(asked, totals - reached, 0.0), counted.argmax(-1), totals


def torch_slopes(scores: Tensor, totals: Tensor, targets: Tensor, slopes: Tensor, words: int) -> Tensor:
    slope = (scores.float() - totals[:, None]).exp_()
    slope[:, words:] = 0
    slope.scatter_add_(1, targets.clamp(min=0)[:, None], slope.new_full((len(slope), 1), -1.0))
    return slope.mul_(torch.where(targets >= 0, slopes.float(), 0.0)[:, None]).to(scores.dtype)
