"""What torch.compile and torch.export need to know of our functions, and whether they trace now."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

Function = TypeVar("Function", bound=Callable[..., object])


def trace_constant(function: Function) -> Function:
    """Mark a function whose result torch.compile takes as a constant: it calls the function and does not trace it.

    The same as torch.compiler.assume_constant_result, which imports the whole compiler and so takes two seconds.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@trace_constant  # torch 2.11's compiler would return True
def is_exporting() -> bool:
    return torch.compiler.is_exporting()


@trace_constant  # recompiled for each transform
def is_transformed() -> bool:
    """True inside a transform of torch.func or under forward-mode automatic differentiation."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def static_size(size: int) -> int:
    """Return the size; torch.compile takes it as a constant, so it compiles once per size."""
    return len(range(size))


def may_depend_on_values(tensor: Tensor) -> bool:
    """True if shapes and steps may depend on values without a wait: on a CPU, not compiled, exported or transformed."""
    is_traced = torch.compiler.is_compiling() or is_exporting() or is_transformed()
    return tensor.device.type == "cpu" and not is_traced
