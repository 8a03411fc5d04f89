"""Guards around torch's scaled dot-product attention."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

_WITHOUT_CUDNN = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def without_cudnn(query: Tensor, mask: Tensor | None) -> AbstractContextManager[object]:
    """Excludes cuDNN's attention where a mask is given and gradients are enabled.

    At some lengths the gradient of cuDNN's masked attention is NaN on H100 and H200 (PyTorch issue 196678, since 2.11).
    """
    at_risk = mask is not None and query.is_cuda and torch.is_grad_enabled()
    return sdpa_kernel(_WITHOUT_CUDNN) if at_risk else nullcontext()
