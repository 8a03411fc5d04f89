"""Asynchronous copies of tensors to a device."""

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor to a device. CPU tensors are pinned so that the copy to a GPU is asynchronous.

    A copy back to the CPU is synchronous, because its values may be read at once.
    """
    here = tensor.device.type == "cpu"
    if here and torch.device(device).type == "cuda" and tensor.numel():
        tensor = tensor.contiguous().pin_memory()
    return tensor.to(device, non_blocking=here)
