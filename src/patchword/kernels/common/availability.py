"""Whether a kernel of Triton may be used: the same questions for every kernel.

A compiler answers them while it traces, once for all runs of what it compiles.
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
from torch.autograd import forward_ad

_MEASURED = ("3.6.",)
_KINDS = (torch.bfloat16, torch.float16)
_PLAIN = (Tensor, nn.Parameter, FakeTensor)


class SelfTest:
    """A kernel is built when it is first used, which needs more than a GPU (a compiler, a folder to write to). So it is
    tried, once on each GPU, and must answer as the plain way does.

    alike: whether it does. on: of a GPU's number, whether the kernel is made for such a one
    """

    def __init__(
        self, what: str, matches_reference: Callable[[torch.device], bool], on: Callable[[int], bool] | None = None
    ):
        self.what, self.matches_reference, self.on = what, matches_reference, on
        self.found: dict[int, bool] = {}
        _SELF_TESTS.append(self)

    def passes(self, index: int) -> bool:
        if index not in self.found:
            self.found[index] = is_installed() and self._works(torch.device("cuda", index))
        return self.found[index]

    def _works(self, device: torch.device) -> bool:
        """In a thread of its own, where nothing of what surrounds the call holds: autocast, hooks on what is saved,
        a recomputation."""
        try:
            with ThreadPoolExecutor(1) as alone:
                works = alone.submit(self.matches_reference, device).result()
            reason = "its answers are not those of the plain way"
        except Exception as error:  # whatever it is, the plain way works
            works, reason = False, f"{type(error).__name__}: {error}"
        if not works:
            told = f"the kernel for {self.what} is not used on this machine, the plain way is: {reason}"
            warnings.warn(told, stacklevel=3)
        return works


class TestInputs(NamedTuple):
    """Numbers to try a kernel with, of which no two neighbours are alike. Tokens have means and sizes of their own,
    without which a norm would leave them nearly as they are."""

    device: torch.device
    kind: torch.dtype = torch.float32

    def __call__(self, *shape: int, size: float = 1.0, by: float = 1.0) -> Tensor:
        """size: of the largest. by: other waves"""
        count = torch.Size(shape).numel()
        steps = torch.linspace(-by * count, by * count, count, device=self.device)
        return (steps.sin() * size).view(shape).to(self.kind)

    def tokens(self, *shape: int) -> Tensor:
        one_each = *shape[:-1], 1
        return self(*shape) * (1 + self(*one_each, size=0.7)) + self(*one_each, size=2.0, by=3.0)


_SELF_TESTS: list[SelfTest] = []


def run_self_tests(device: torch.device) -> None:
    """Before a model is compiled, since a compiler cannot try: what fails is not compiled into it."""
    if device.type == "cuda" and is_installed():
        index = torch.cuda.current_device() if device.index is None else device.index
        for trial in _SELF_TESTS:
            if trial.on is None or trial.on(index):
                trial.passes(index)


def is_on_cuda(tokens: Tensor) -> bool:
    """The first question, whose answer mostly is no, before any other is asked."""
    return tokens.is_cuda


def is_usable(tensor: Tensor, trial: SelfTest) -> bool:
    """On a GPU with Triton, where nothing must look inside (a transform of torch.func, an export)."""
    if not tensor.is_cuda or is_exporting() or _is_looked_into():
        return False
    if torch.compiler.is_compiling():
        there: bool = is_installed() and not _has_failed(trial.what)
        return there
    return trial.passes(tensor.get_device())


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # compiled anew for each transform
def _is_looked_into() -> bool:
    """by a transform of torch.func, or by numbers that carry a derivative along"""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a compiler need not look inside
def _has_failed(what: str) -> bool:
    return any(trial.what == what and not all(trial.found.values()) for trial in _SELF_TESTS)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch 2.11's compiler would answer yes
def is_exporting() -> bool:
    return torch.compiler.is_exporting()


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a compiler need not look inside
def is_installed() -> bool:
    return find_spec("triton") is not None


def needs_grad(*parts: Tensor | None) -> bool:
    """whether a gradient is wanted of any of them"""
    return torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in parts)


def short_dtype(tokens: Tensor, matrix: Tensor, *others: Tensor | None) -> torch.dtype | None:
    """what products are computed in, if that is 16 bits: autocast's kind, else that of tokens and matrix alike.

    others: that a kernel reads besides. A tensor that is quantised or distributed has ways of its own."""
    if any(part is not None and type(part) not in _PLAIN for part in (matrix, *others)):
        return None
    if torch.is_autocast_enabled(tokens.device.type):
        kind = torch.get_autocast_dtype(tokens.device.type)
        return kind if kind in _KINDS and tokens.dtype in (*_KINDS, torch.float32) else None
    return matrix.dtype if matrix.dtype in _KINDS and tokens.dtype == matrix.dtype else None


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a compiler need not look inside
def is_hopper(index: int) -> bool:
    """For no other GPU the launches were planned."""
    return torch.version.hip is None and torch.cuda.get_device_capability(index) == (9, 0)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a compiler need not look inside
def has_warp_specialization(index: int) -> bool:
    """Whether groups of warps may do different things: on a Hopper GPU, by versions of Triton that this was measured
    with, since that part of it is young and changes."""
    return is_hopper(index) and _version().startswith(_MEASURED)


@cache
def _version() -> str:
    """of Triton; nothing, where it does not tell"""
    try:
        return version("triton")
    except PackageNotFoundError:
        return ""
