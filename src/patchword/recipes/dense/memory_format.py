"""The memory format in which convolutions are fastest on a GPU."""

import torch
from torch import nn


def store_channels_last(model: nn.Module) -> None:
    """Store the weights of 2D convolutions channels last. `Module.to` would also take tensors of rank 5, and fail."""
    for parameter in model.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
