"""Cancels work that changes nothing, such as validation, in the middle."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


class Cancelled(Exception):  # noqa: N818  (not an error)
    """Work that changes nothing was left in the middle, since the process was asked to stop."""


@contextmanager
def cancellable(model: nn.Module, cancelled: Callable[[], bool]) -> Iterator[None]:
    """Make the model raise `Cancelled` at its next block once `cancelled()` is True, inside the `with` block."""

    def check(*_: Any) -> None:
        if cancelled():
            raise Cancelled

    # no hooks on leaf modules and the modules directly above: hooks would forbid to fuse them
    modules = [module for module in model.modules() if module is model or any(map(_has_children, module.children()))]
    hooks = [module.register_forward_pre_hook(check) for module in modules]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _has_children(module: nn.Module) -> bool:
    return next(module.children(), None) is not None
