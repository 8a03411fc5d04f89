"""Tensors sent to where they are needed, without waiting for what goes on there."""

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """On the device. A GPU fetches by itself, in its turn, what lies in memory that the system may not move; for other
    memory whoever sends would wait until all that was asked of the GPU before is done. The way back is waited for: what
    is in the main memory may be read at once."""
    here = tensor.device.type == "cpu"
    if here and torch.device(device).type == "cuda" and tensor.numel():
        tensor = tensor.contiguous().pin_memory()
    return tensor.to(device, non_blocking=here)
