"""torch's scaled dot-product attention, without the kernels of it that are wrong in some cases."""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

_WITHOUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_TILE, _HALF = 128, 64  # tokens: cuDNN's backward pass on Hopper walks the keys in tiles of two halves


def sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float,
) -> Tensor:
    """softmax(query key' * scale + mask) value; all (batch, heads, tokens, head width).

    mask: added to the scores, or boolean (True = may attend); (queries, keys), with heads or batch and heads in front
    """
    if mask is not None and mask.ndim == 3:  # the fused kernel for CPUs accepts masks of two or four dimensions only
        mask = mask[None]
    with without_cudnn(query, key, mask, is_causal):
        return F.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal, scale=scale)


def without_cudnn(
    query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool = False
) -> AbstractContextManager[object]:
    """Excludes cuDNN's attention where its gradient may be NaN on H100 and H200, since torch 2.11 takes it first there.

    If 64 divides the number of keys, its backward pass does not mask what is missing in a tile of 128. A missing score
    is 0, and exp(0 - log-sum-exp) is infinite for a query whose scores are all below -88.7: finite inputs and a finite
    loss, but a gradient that is NaN (cuDNN frontend 628; PyTorch issue 196678, with a mask). Models get there: PVT has
    64 keys in every stage for images of 256 pixels, and as the backbone of UperNet, trained from scratch, scores below
    -100 (benchmarks/results/camvid-h200.md). A single query is affected, too (cuDNN frontend 1072). With whole tiles,
    other lengths or a causal mask, nothing is missing or it is masked.
    """
    if not query.is_cuda or not torch.is_grad_enabled():
        return nullcontext()
    at_risk = mask is not None or (not is_causal and _has_unmasked_rest(query.shape[-2], key.shape[-2]))
    return sdpa_kernel(_WITHOUT_CUDNN) if at_risk else nullcontext()


def _has_unmasked_rest(queries: int, keys: int) -> bool:
    """True if a tile of queries or keys is not full, and the number of keys is one for which no mask is computed."""
    return keys % _HALF == 0 and (keys % _TILE != 0 or queries % _TILE != 0)
