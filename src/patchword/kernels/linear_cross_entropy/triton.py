# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The cross-entropy of rows of scores as one kernel of a GPU, its slope as another. The twin is in cross_entropy_rows.

Only to be imported where Triton is installed. Scores are read once each way, in the precision they have; everything
else happens in float32 inside the kernel.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 4096
_LOWEST = -1e30  # finite, so that the difference of two of them is a number


@triton.jit
def _forwards(scores, targets, losses, likeliest, totals, words, wide, lowest: tl.constexpr, block: tl.constexpr):
    """Each lane keeps the highest score it saw, its word, and the sum of exponents below it; then they are joined."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, block)
    highest = tl.full([block], lowest, tl.float32)
    summed = tl.zeros([block], tl.float32)
    word = tl.zeros([block], tl.int32)
    for start in range(0, words, block):
        place = start + lanes
        score = tl.load(scores + row * wide + place, place < words, other=lowest).to(tl.float32)
        word = tl.where(score > highest, place, word)
        higher = tl.maximum(highest, score)
        summed = summed * tl.exp(highest - higher) + tl.where(place < words, tl.exp(score - higher), 0.0)
        highest = higher
    top = tl.max(highest, 0)
    total = top + tl.log(tl.sum(summed * tl.exp(highest - top), 0))
    target = tl.load(targets + row)
    reached = tl.load(scores + row * wide + tl.maximum(target, 0)).to(tl.float32)
    tl.store(losses + row, tl.where(target >= 0, total - reached, 0.0))
    tl.store(likeliest + row, tl.min(tl.where(highest == top, word, words), 0).to(tl.int64))
    tl.store(totals + row, total)


@triton.jit
def _backwards(scores, totals, targets, slopes, found, words, wide, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * block + tl.arange(0, block)
    counts = place < words
    score = tl.load(scores + row * wide + place, counts, other=0.0).to(tl.float32)
    target, slope = tl.load(targets + row), tl.load(slopes + row).to(tl.float32)
    share = tl.exp(score - tl.load(totals + row)) - tl.where(place == target, 1.0, 0.0)
    share = tl.where(counts & (target >= 0), share * slope, 0.0)
    tl.store(found + row * wide + place, share, place < wide)


def loss_rows(scores: Tensor, targets: Tensor, words: int) -> tuple[Tensor, Tensor, Tensor]:
    rows, wide = scores.shape
    losses, totals = (scores.new_empty(rows, dtype=torch.float32) for _ in range(2))
    likeliest = torch.empty_like(targets)
    if rows:
        held = losses, likeliest, totals
        _forwards[(rows,)](scores, targets, *held, words, wide, lowest=_LOWEST, block=_BLOCK, num_warps=8)
    return losses, likeliest, totals


def slope_rows(scores: Tensor, totals: Tensor, targets: Tensor, slopes: Tensor, words: int) -> Tensor:
    found, (rows, wide) = torch.empty_like(scores), scores.shape
    if rows:
        grid = rows, triton.cdiv(wide, _BLOCK)
        _backwards[grid](scores, totals, targets, slopes.contiguous(), found, words, wide, block=_BLOCK, num_warps=8)
    return found
