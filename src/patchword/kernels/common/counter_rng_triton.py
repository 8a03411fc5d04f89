# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The numbers of mixed.mixed in a kernel. Only to be imported where Triton is installed."""

import triton
import triton.language as tl

_FIRST, _SECOND = tl.constexpr(0x7FEB352D), tl.constexpr(0x846CA68B)


@triton.jit
def keep_mask(seeds, place, lowest: tl.constexpr):
    """for each place, whether what is there is kept"""
    one, two = tl.load(seeds).to(tl.uint32, bitcast=True), tl.load(seeds + 1).to(tl.uint32, bitcast=True)
    found = _hash(_hash(place.to(tl.uint32, bitcast=True) ^ one) + two)
    return found.to(tl.int32, bitcast=True) >= lowest


@triton.jit
def _hash(number):
    number = (number ^ (number >> 16)) * _FIRST
    number = (number ^ (number >> 15)) * _SECOND
    return number ^ (number >> 16)
