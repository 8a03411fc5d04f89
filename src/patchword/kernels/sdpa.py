"""torch's scaled dot-product attention, without the kernels of it that are wrong in some cases."""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

_WITHOUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


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
    with without_cudnn(query, mask):
        return F.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal, scale=scale)


def without_cudnn(query: Tensor, mask: Tensor | None) -> AbstractContextManager[object]:
    """Excludes cuDNN's attention where a mask is given and gradients are enabled.

    At some lengths the gradient of cuDNN's masked attention is NaN on H100 and H200 (PyTorch issue 196678, since 2.11).
    """
    at_risk = mask is not None and query.is_cuda and torch.is_grad_enabled()
    return sdpa_kernel(_WITHOUT_CUDNN) if at_risk else nullcontext()
