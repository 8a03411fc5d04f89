"""Whether someone watches a part, so that it must run as a module of its own."""

from torch import nn


def is_watched(module: nn.Module) -> bool:
    """by hooks, which only see modules that are called"""
    backwards = module._backward_hooks or module._backward_pre_hooks
    return bool(module._forward_hooks or module._forward_pre_hooks or backwards)
