"""Predictions in full precision: boxes and scores need more digits than bfloat16 has."""

import torch
from torch import Tensor


def full_precision(found: Tensor) -> Tensor:
    """Return float32 for a half-precision tensor, which heads compute under autocast; others are returned unchanged."""
    return found.float() if found.dtype in (torch.bfloat16, torch.float16) else found
