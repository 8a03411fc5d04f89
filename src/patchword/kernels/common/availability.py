"""Whether a Triton kernel can be used: the same conditions for every kernel.

torch.compile evaluates them while it traces, once for all runs of the compiled code.
"""

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor

from patchword.core.tracing import is_exporting, is_transformed, trace_constant

_MEASURED = ("3.6.",)
_DTYPES = (torch.bfloat16, torch.float16)
_TENSOR_TYPES = (Tensor, nn.Parameter, FakeTensor)


class SelfTest:
    """Runs a kernel once per GPU, before its first use, and compares it with its reference.

    A kernel is compiled at its first use, which needs more than a GPU: a C compiler, and a folder to write to. If the
    self-test fails, the reference is used instead, with a warning.

    what: what the kernel computes, for the warning. matches_reference: runs the comparison on a device.
    on: given the index of a GPU, whether the kernel is made for it; None is every GPU.
    """

    def __init__(
        self, what: str, matches_reference: Callable[[torch.device], bool], on: Callable[[int], bool] | None = None
    ):
        self.what, self.matches_reference, self.on = what, matches_reference, on
        self.found: dict[int, bool] = {}
        _SELF_TESTS.append(self)

    def passes(self, index: int) -> bool:
        """True if the kernel works on the GPU with this index. The result is kept."""
        if index not in self.found:
            self.found[index] = is_installed() and self._works(torch.device("cuda", index))
        return self.found[index]

    def _works(self, device: torch.device) -> bool:
        """Runs in a thread of its own, without the caller's autocast, saved-tensor hooks or checkpointing."""
        try:
            with ThreadPoolExecutor(1) as thread:
                works = thread.submit(self.matches_reference, device).result()
            reason = "its results do not match the reference"
        except Exception as error:  # whatever it is, the reference works
            works, reason = False, f"{type(error).__name__}: {error}"
        if not works:
            message = f"the kernel for {self.what} is not used on this machine; the reference is used instead: {reason}"
            warnings.warn(message, stacklevel=3)
        return works


class TestInputs(NamedTuple):
    """Deterministic inputs of self-tests: sine waves, in which neighbouring values differ."""

    device: torch.device
    dtype: torch.dtype = torch.float32

    def __call__(self, *shape: int, size: float = 1.0, by: float = 1.0) -> Tensor:
        """Returns a tensor of this shape. size: the largest absolute value. by: frequency of the wave"""
        count = torch.Size(shape).numel()
        steps = torch.linspace(-by * count, by * count, count, device=self.device)
        return (steps.sin() * size).view(shape).to(self.dtype)

    def tokens(self, *shape: int) -> Tensor:
        """Returns tokens whose means and norms differ, so that a layer norm changes them visibly."""
        one_each = *shape[:-1], 1
        return self(*shape) * (1 + self(*one_each, size=0.7)) + self(*one_each, size=2.0, by=3.0)


_SELF_TESTS: list[SelfTest] = []


def run_self_tests(device: torch.device) -> None:
    """Runs all self-tests on a GPU. To be called before a model is compiled, because the compiler cannot run them."""
    if device.type == "cuda" and is_installed():
        index = torch.cuda.current_device() if device.index is None else device.index
        for self_test in _SELF_TESTS:
            if self_test.on is None or self_test.on(index):
                self_test.passes(index)


def is_on_cuda(tokens: Tensor) -> bool:
    """True if the tensor is on a GPU: the cheapest condition, to be checked before all others."""
    return tokens.is_cuda


def is_usable(tensor: Tensor, self_test: SelfTest) -> bool:
    """True on a GPU with Triton if the self-test passes, outside transforms of torch.func and exports."""
    if not tensor.is_cuda or is_exporting() or is_transformed():
        return False
    if torch.compiler.is_compiling():
        can_compile: bool = is_installed() and not _has_failed(self_test.what)
        return can_compile
    return self_test.passes(tensor.get_device())


@trace_constant
def _has_failed(what: str) -> bool:
    return any(test.what == what and not all(test.found.values()) for test in _SELF_TESTS)


@trace_constant
def is_installed() -> bool:
    return find_spec("triton") is not None


def can_fuse(tokens: Tensor, matrix: Tensor, *others: Tensor | None) -> bool:
    """True if an inference kernel may replace operations of torch: on a GPU, in 16 bits, if no gradient is needed."""
    if not is_on_cuda(tokens) or needs_grad(tokens, matrix, *others):
        return False
    return short_dtype(tokens, matrix, *others) is not None


def needs_grad(*parts: Tensor | None) -> bool:
    """True if gradients are enabled and at least one of the tensors requires one."""
    return torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in parts)


def short_dtype(tokens: Tensor, matrix: Tensor, *others: Tensor | None) -> torch.dtype | None:
    """Returns the 16-bit dtype of matrix products: autocast's, or the common one of tokens and matrix; else None.

    others: further tensors that a kernel reads. Tensor subclasses (quantised, distributed) give None, because they
    implement operations in their own way.
    """
    if any(part is not None and type(part) not in _TENSOR_TYPES for part in (matrix, *others)):
        return None
    if torch.is_autocast_enabled(tokens.device.type):
        dtype = torch.get_autocast_dtype(tokens.device.type)
        return dtype if dtype in _DTYPES and tokens.dtype in (*_DTYPES, torch.float32) else None
    return matrix.dtype if matrix.dtype in _DTYPES and tokens.dtype == matrix.dtype else None


@trace_constant
def is_hopper(index: int) -> bool:
    """True for Hopper GPUs, the only ones for which the launches were tuned."""
    return torch.version.hip is None and torch.cuda.get_device_capability(index) == (9, 0)


@trace_constant
def has_warp_specialization(index: int) -> bool:
    """True if warp-specialised kernels can run: on Hopper GPUs, with the Triton versions they were measured with,
    because this part of Triton still changes."""
    return is_hopper(index) and _version().startswith(_MEASURED)


@cache
def _version() -> str:
    """Returns the version of Triton; an empty string if it is unknown."""
    try:
        return version("triton")
    except PackageNotFoundError:
        return ""
