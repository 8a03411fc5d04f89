"""Leaving work that changes nothing, such as validation, in the middle when asked to stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


class Abandoned(Exception):  # noqa: N818  (not an error)
    """Work that changes nothing was left in the middle, since the process was asked to stop."""


@contextmanager
def abandonable(model: nn.Module, asked: Callable[[], bool]) -> Iterator[None]:
    """Inside, the model raises `Abandoned` at its next block when asked to stop: for work that changes nothing."""

    def look(*_: Any) -> None:
        if asked():
            raise Abandoned

    # not in small parts, which run in one kernel if nobody watches them
    parts = [part for part in model.modules() if part is model or any(map(_has_parts, part.children()))]
    hooks = [part.register_forward_pre_hook(look) for part in parts]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _has_parts(module: nn.Module) -> bool:
    return next(module.children(), None) is not None
