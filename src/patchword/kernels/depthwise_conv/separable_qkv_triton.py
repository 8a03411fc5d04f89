# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Folds the batch norms of separable projections into the taps and constants of their convolutions.

It also transposes the taps: a convolution weight is contiguous along the taps of a channel, while the kernels of
triton.py load one tap of many channels at a time. Import it only where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit
def fold_norms(
    taps_q, scale_q, shift_q, mean_q, spread_q, taps_k, scale_k, shift_k, mean_k, spread_k,
    taps_v, scale_v, shift_v, mean_v, spread_v, table, eps, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """table: (3, 10, width), float32: nine taps and a constant per projection"""
    own, channel = tl.program_id(1), tl.program_id(0) * block + tl.arange(0, block)
    table += own * 10 * width + channel
    if own == 0:
        _fold(taps_q, scale_q, shift_q, mean_q, spread_q, table, channel, eps, width)
    elif own == 1:
        _fold(taps_k, scale_k, shift_k, mean_k, spread_k, table, channel, eps, width)
    else:
        _fold(taps_v, scale_v, shift_v, mean_v, spread_v, table, channel, eps, width)


@triton.jit
def _fold(taps, scale, shift, mean, spread, table, channel, eps, width: tl.constexpr):
    by = tl.load(scale + channel).to(tl.float32) * tl.rsqrt(tl.load(spread + channel).to(tl.float32) + eps)
    for tap in tl.static_range(9):
        tl.store(table + tap * width, tl.load(taps + channel * 9 + tap).to(tl.float32) * by)
    tl.store(table + 9 * width, tl.load(shift + channel).to(tl.float32) - tl.load(mean + channel).to(tl.float32) * by)
