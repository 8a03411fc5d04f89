"""What torch.compile and torch.export need to know of our functions."""

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def trace_constant(function: Function) -> Function:
    """Mark a function whose result torch.compile takes as a constant: it calls the function and does not trace it.

    The same as torch.compiler.assume_constant_result, which imports the whole compiler and so takes two seconds.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
