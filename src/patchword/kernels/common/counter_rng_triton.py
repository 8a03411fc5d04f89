# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The random numbers of counter_rng in a Triton kernel. Import it only where Triton is installed."""

import triton
import triton.language as tl

_FIRST, _SECOND = tl.constexpr(0x7FEB352D), tl.constexpr(0x846CA68B)


@triton.jit
def keep_mask(seeds, index, lowest: tl.constexpr):
    """Returns True for each index that dropout keeps."""
    one, two = tl.load(seeds).to(tl.uint32, bitcast=True), tl.load(seeds + 1).to(tl.uint32, bitcast=True)
    found = _hash(_hash(index.to(tl.uint32, bitcast=True) ^ one) + two)
    return found.to(tl.int32, bitcast=True) >= lowest


@triton.jit
def _hash(number):
    number = (number ^ (number >> 16)) * _FIRST
    number = (number ^ (number >> 15)) * _SECOND
    return number ^ (number >> 16)
