"""Leaving work that changes nothing, such as validation, in the middle when asked to stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


class Abandoned(Exception):  # noqa: N818  (not an error)
    """Work that changes nothing was left in the middle, since the process was asked to stop."""


@contextmanager
def abandonable(model: nn.Module, asked: Callable[[], bool]) -> Iterator[None]:
    """Inside, the model raises `Abandoned` at its next part when asked to stop: for work that changes nothing."""

    def look(*_: Any) -> None:
        if asked():
            raise Abandoned

    hooks = [part.register_forward_pre_hook(look) for part in model.modules()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
