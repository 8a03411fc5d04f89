"""Whether someone watches a part, so that it must run as a module of its own."""

import torch
from torch import nn
from torch.nn.modules import module as everywhere


def has_hooks(module: nn.Module) -> bool:
    """by hooks, which only see modules that are called, or by a way of its own to run. A compiler is not asked for
    hooks on all modules: it does not know them."""
    backwards = module._backward_hooks or module._backward_pre_hooks
    if module._forward_hooks or module._forward_pre_hooks or backwards:
        return True
    if torch.compiler.is_compiling():
        return False
    hooked = everywhere._global_forward_hooks or everywhere._global_forward_pre_hooks
    backwards = everywhere._global_backward_hooks or everywhere._global_backward_pre_hooks
    return bool(hooked or backwards or "forward" in vars(module))
