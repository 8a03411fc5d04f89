"""Functions as operations of torch, so that a compiled model keeps each of them whole.

Defined by hand: they need none of what torch.library.custom_op brings along, which takes three times as long to call.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import torch

Answer = TypeVar("Answer")


def register_op(
    name: str, given: str, run: Callable[..., Answer], shape: Callable[..., Answer], answer: str = "Tensor"
) -> Callable[..., Answer]:
    """patchword::name, which is called as `run` is. given, answer: the two sides of its schema

    shape: answers with empty tensors, for a compiler
    """
    full = f"patchword::{name}"
    torch.library.define(full, f"({given}) -> {answer}")
    torch.library.impl(full, "default", run)
    torch.library.register_fake(full, shape)
    return cast(Callable[..., Answer], getattr(torch.ops.patchword, name))
