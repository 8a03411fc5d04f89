# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Shared by kernels over narrow tokens: loads, LayerNorm, matrix products.

A width is the sum of two powers of two (96 = 64 + 32), so that no computation is wasted on padding. Import it only
where Triton is installed.
"""

import triton
import triton.language as tl


@triton.jit
def product(one, other, total):
    return tl.dot(one, other, total, input_precision="ieee")


@triton.jit
def read(tokens, row, column, width, valid, cached: tl.constexpr):
    address = tokens + row[:, None] * width + column[None, :]
    return tl.load(address, mask=valid[:, None], other=0.0, cache_modifier=cached)


@triton.jit
def _scaled(x, inv_std, scale, shift, column):
    by, plus = tl.load(scale + column).to(tl.float32), tl.load(shift + column).to(tl.float32)
    return x * inv_std[:, None] * by[None, :] + plus[None, :]


@triton.jit
def normed(tokens, scale, shift, row, column, other, width, valid, eps):
    """Returns both parts of LayerNorm(tokens), computed in float32."""
    x = read(tokens, row, column, width, valid, ".cg").to(tl.float32)
    z = read(tokens, row, other, width, valid, ".cg").to(tl.float32)
    mean = (tl.sum(x, 1) + tl.sum(z, 1)) / width
    x, z = x - mean[:, None], z - mean[:, None]
    inv_std = tl.rsqrt((tl.sum(x * x, 1) + tl.sum(z * z, 1)) / width + eps)
    return _scaled(x, inv_std, scale, shift, column), _scaled(z, inv_std, scale, shift, other)
