"""Builds models on the meta device without filling their tensors.

Filling a meta tensor with initial values changes nothing, but takes half of the time to build a model.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from torch import Tensor
from torch.nn import init

_FILLS = ("uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_")
_FILLS += ("xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_")


@contextmanager
def quick_initialization() -> Iterator[None]:
    """Let the functions of `torch.nn.init` return meta tensors as they are."""
    with ExitStack() as stack:
        for name in _FILLS:
            stack.enter_context(patch.object(init, name, _except_on_meta(getattr(init, name))))
        yield


def _except_on_meta(fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same function, which returns a meta tensor as it is."""

    @wraps(fill)
    def filled(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tensor if tensor.is_meta else fill(tensor, *args, **kwargs)

    return filled
