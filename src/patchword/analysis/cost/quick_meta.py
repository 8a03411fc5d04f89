"""Runs a model on the meta device without computing the same shapes again and again.

Most operations on meta tensors are written in Python and take a millisecond; a model of 24 equal blocks runs each of
them 24 times on equal shapes. The counters above this mode (FlopCounterMode, hooks) still see every operation.
"""

from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_ANSWERS: dict[Hashable, Any] = {}


class QuickMeta(TorchDispatchMode):
    """Answers an operation on meta tensors by the shape, strides and dtype that it had before.

    >>> with torch.no_grad(), QuickMeta(), FlopCounterMode(display=False) as counter:
    ...     model(image)
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        key = _key(func, args, kwargs)
        if key is None:
            return func(*args, **kwargs)
        if key not in _ANSWERS:
            answer = func(*args, **kwargs)
            if not _is_plain(answer):
                return answer
            _ANSWERS[key] = answer
        return _again(_ANSWERS[key])


def _key(func: Any, args: Any, kwargs: dict[str, Any]) -> Hashable | None:
    """What the answer depends on; None for an operation that returns or changes one of its arguments."""
    schema = func._schema
    if schema.is_mutable or any(answer.alias_info is not None for answer in schema.returns):
        return None
    try:
        key = (func, _described(args), _described(tuple(kwargs.items())))
        hash(key)
    except TypeError:  # a symbolic size, a tensor on another device
        return None
    return key


def _described(value: Any) -> Hashable:
    if isinstance(value, Tensor):
        if type(value) not in (Tensor, torch.nn.Parameter) or value.device.type != "meta":
            raise TypeError("not a plain tensor on the meta device")
        return (value.shape, value.stride(), value.dtype)
    if isinstance(value, tuple | list):
        return (type(value), *map(_described, value))
    return (type(value), value)


def _is_plain(answer: Any) -> bool:
    if isinstance(answer, tuple | list):
        return all(map(_is_plain, answer))
    return answer is None or (type(answer) is Tensor and answer.device.type == "meta")


def _again(answer: Any) -> Any:
    """Equal tensors, but new ones: autograd and in-place operations may change them."""
    if isinstance(answer, tuple | list):
        return type(answer)(map(_again, answer))
    if answer is None:
        return None
    return torch.empty_strided(answer.shape, answer.stride(), dtype=answer.dtype, device="meta")
