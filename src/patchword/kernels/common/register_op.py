"""Registers functions as operations of torch, which the compiler calls and does not trace.

Not with torch.library.custom_op: calling such an operation takes three times as long.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import torch

Answer = TypeVar("Answer")


def register_op(
    name: str, given: str, run: Callable[..., Answer], shape: Callable[..., Answer], answer: str = "Tensor"
) -> Callable[..., Answer]:
    """Registers the operation patchword::name, and returns it. It is called like `run`.

    given, answer: arguments and results of its schema. shape: returns empty tensors like the results, for the compiler.
    """
    full = f"patchword::{name}"
    torch.library.define(full, f"({given}) -> {answer}")
    torch.library.impl(full, "default", run)
    torch.library.register_fake(full, shape)
    return cast(Callable[..., Answer], getattr(torch.ops.patchword, name))
