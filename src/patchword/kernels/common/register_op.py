"""Registers functions as operations of torch, which the compiler calls and does not trace.

Not with torch.library.custom_op: calling such an operation takes three times as long.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import torch
from torch import Tensor

Result = TypeVar("Result")


def register_op(
    name: str, arguments: str, run: Callable[..., Result], shape: Callable[..., Result], results: str = "Tensor"
) -> Callable[..., Result]:
    """Registers the operation patchword::name, and returns it. It is called like `run`.

    arguments, results: of its schema. shape: returns empty tensors like the results, for the compiler.
    """
    full = f"patchword::{name}"
    torch.library.define(full, f"({arguments}) -> {results}")
    torch.library.impl(full, "default", run)
    torch.library.register_fake(full, shape)
    return cast(Callable[..., Result], getattr(torch.ops.patchword, name))


def empty_like_first(tokens: Tensor, *others: object) -> Tensor:
    """Returns an empty contiguous tensor like the first input: the fake of operations that keep its shape and dtype."""
    return torch.empty_like(tokens, memory_format=torch.contiguous_format)
