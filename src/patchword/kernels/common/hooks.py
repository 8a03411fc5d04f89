"""Whether a module must run as it is, because a function in its place would not do the same."""

import torch
from torch import nn
from torch.nn.modules import module as global_hooks


def has_hooks(module: nn.Module) -> bool:
    """True if hooks or an overridden forward forbid to compute a module's output without calling the module.

    torch.compile does not trace global hooks, so they are not checked while it traces.
    """
    backward = module._backward_hooks or module._backward_pre_hooks
    if module._forward_hooks or module._forward_pre_hooks or backward:
        return True
    if torch.compiler.is_compiling():
        return False
    forward = global_hooks._global_forward_hooks or global_hooks._global_forward_pre_hooks
    backward = global_hooks._global_backward_hooks or global_hooks._global_backward_pre_hooks
    return bool(forward or backward or "forward" in vars(module))


def is_exactly(module: nn.Module, *classes: type[nn.Module]) -> bool:
    """True if a kernel may replace the module: an object of one of these classes without hooks or an own forward.

    A subclass (quantised, parametrised, a user's own) computes another function.
    """
    return type(module) in classes and not has_hooks(module)
