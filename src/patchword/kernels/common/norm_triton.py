# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Parts of kernels over rows of narrow tokens: reading them, LayerNorm, products.

A width is held as the sum of two powers of two (96 = 64 + 32), so that nothing is computed in vain. Only to be imported
where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit
def product(one, other, total):
    return tl.dot(one, other, total, input_precision="ieee")


@triton.jit
def read(tokens, row, column, width, there, cached: tl.constexpr):
    place = tokens + row[:, None] * width + column[None, :]
    return tl.load(place, mask=there[:, None], other=0.0, cache_modifier=cached)


@triton.jit
def _scaled(x, spread, scale, shift, column):
    by, plus = tl.load(scale + column).to(tl.float32), tl.load(shift + column).to(tl.float32)
    return x * spread[:, None] * by[None, :] + plus[None, :]


@triton.jit
def normed(tokens, scale, shift, row, column, other, width, there, eps):
    """LayerNorm in float32, of both parts of the width"""
    x = read(tokens, row, column, width, there, ".cg").to(tl.float32)
    z = read(tokens, row, other, width, there, ".cg").to(tl.float32)
    mean = (tl.sum(x, 1) + tl.sum(z, 1)) / width
    x, z = x - mean[:, None], z - mean[:, None]
    spread = tl.rsqrt((tl.sum(x * x, 1) + tl.sum(z * z, 1)) / width + eps)
    return _scaled(x, spread, scale, shift, column), _scaled(z, spread, scale, shift, other)
