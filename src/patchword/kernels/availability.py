"""Whether a kernel of Triton may be used: the same questions for every kernel.

A compiler answers them while it traces, once for all runs of what it compiles.
"""

import warnings
from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

_KINDS = (torch.bfloat16, torch.float16)


def is_usable(tensor: Tensor, works: Callable[[int], bool]) -> bool:
    """On a GPU with Triton, where nothing must look inside (a transform of torch.func, an export).

    works: of the GPU's number, whether the kernel does what it should there; a compiled model does not ask.
    """
    if not tensor.is_cuda or _is_exporting():
        return False
    if torch.compiler.is_compiling():  # a compiled model needs a Triton that works, too
        there: bool = is_installed()
        return there
    return not torch._C._are_functorch_transforms_active() and works(tensor.get_device())


def is_tried(what: str, alike: Callable[[torch.device], bool], index: int) -> bool:
    """A kernel is built when it is first used, which needs more than a GPU (a compiler, a folder to write to). So it is
    tried, once, and must answer as the plain way does; whoever asks keeps the answer."""
    if not is_installed():
        return False
    try:
        works, reason = alike(torch.device("cuda", index)), "its answers are not those of the plain way"
    except Exception as error:  # whatever it is, the plain way works
        works, reason = False, f"{type(error).__name__}: {error}"
    if not works:
        warnings.warn(f"the kernel for {what} is not used on this machine, the plain way is: {reason}", stacklevel=2)
    return works


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch 2.11's compiler would answer yes
def _is_exporting() -> bool:
    return torch.compiler.is_exporting()


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a compiler need not look inside
def is_installed() -> bool:
    return find_spec("triton") is not None


def short_kind(tokens: Tensor, matrix: Tensor) -> torch.dtype | None:
    """what products are computed in, if that is 16 bits: autocast's kind, else that of tokens and matrix alike"""
    if torch.is_autocast_enabled(tokens.device.type):
        kind = torch.get_autocast_dtype(tokens.device.type)
        return kind if kind in _KINDS and tokens.dtype in (*_KINDS, torch.float32) else None
    return matrix.dtype if matrix.dtype in _KINDS and tokens.dtype == matrix.dtype else None


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a compiler need not look inside
def is_hopper(index: int) -> bool:
    """For no other GPU the launches were planned."""
    return torch.cuda.get_device_capability(index) == (9, 0)
