"""Shared by the tests of kernels: the device, the Triton marker, distances from float64, map sizes, kernel variants."""

import inspect
from copy import deepcopy

import pytest
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
needs_triton = pytest.mark.usefixtures("triton")
MAPS = {  # batch, height, width of the map
    "odd": (3, 5, 7),
    "one strip of seven": (2, 7, 8),
    "two strips": (2, 14, 6),
    "a strip and a row": (4, 8, 3),
    "lanes that fill programs": (4, 9, 2),
    "one row": (3, 1, 9),
    "one column": (3, 9, 1),
    "one token": (1, 1, 1),
}


def error(found, expected):
    return float((found.double() - expected).norm() / expected.norm())


def farthest(found, expected):
    """Returns the largest relative difference over the output and each gradient.

    A difference is relative to the norm of the expected tensor, but at least to 1% of the largest norm, because some
    gradients are zero (that of the keys' bias, for example).
    """
    pairs = [(one.detach().double(), other.detach().double()) for one, other in zip(found, expected, strict=True)]
    least = 1e-2 * max(float(other.norm()) for _, other in pairs)
    return max(float((one - other).norm()) / max(float(other.norm()), least) for one, other in pairs)


def assert_as_exact(kernel, reference, exact, factor=4.0):
    """Asserts that the kernel is about as close to float64 as the reference in the same dtype.

    No bound is an absolute number: the rounding of matrix products differs between CPUs and library versions, and the
    reference has the same rounding as the kernel.

    kernel, reference, exact: lists of tensors, computed by the kernel, by the reference in the same dtype, and by the
        reference in float64.
    factor: the allowed multiple of the reference's own distance from float64, or of one machine epsilon of the
        reference's dtype if the reference is more exact than that.
    """
    ours, theirs = farthest(kernel, exact), farthest(reference, exact)
    least = torch.finfo(reference[0].dtype).eps
    assert ours <= factor * max(theirs, least), f"kernel {ours:.2e}, reference {theirs:.2e} from float64"


def assert_rounded(found, exact, roundings=1):
    """Asserts that 16-bit tensors are the exact ones with this number of roundings.

    A rounding to nearest changes a number by at most half a machine epsilon. Triton's interpreter truncates bfloat16,
    which changes it by at most one epsilon and in the mean by less than half.
    """
    distance, least = farthest(found, exact), torch.finfo(found[0].dtype).eps / 2
    assert distance <= roundings * least, f"{distance:.2e} from float64, {distance / least:.1f} roundings"


def assert_tokens_as_exact(kernel, reference, exact):
    """Like assert_as_exact, for each token (..., tokens, width) alone: a mean could hide a wrong one."""
    assert kernel.shape == reference.shape == exact.shape
    assert_as_exact(*(part.flatten(0, -2).unbind() for part in (kernel, reference, exact)))


def assert_matches_module(found, module, *inputs):
    """Asserts that `found` is about as close to float64 as the output of the module for the same inputs."""
    wide = [part.double() if isinstance(part, torch.Tensor) else part for part in inputs]
    assert_as_exact([found], [module(*inputs)], [deepcopy(module).double()(*wide)])


def variant(launch):
    """Returns all that decides which compiled kernel a PreparedLaunch runs, if its tensors are aligned.

    It is the kernel, its compile-time constants, which of its integers Triton specialises (1 and multiples of 16), and
    its options. Needs no GPU.
    """
    import triton.language as tl

    kernel = launch.kernel
    settings = getattr(kernel, "kwargs", None) or vars(kernel)  # the interpreter keeps the decorator's arguments
    fixed, unaligned = (settings[name] or () for name in ("do_not_specialize", "do_not_specialize_on_alignment"))
    parameters = list(inspect.signature(kernel.fn).parameters.values())[-len(launch.numbers) :]

    def compiled_in(parameter, value):
        if parameter.annotation is tl.constexpr:
            return value
        if isinstance(value, float) or parameter.name in fixed:
            return "any"
        multiple = value % 16 == 0 and parameter.name not in unaligned
        return 1 if value == 1 else "multiple of 16" if multiple else "any"

    pairs = zip(parameters, launch.numbers, strict=True)
    return (
        kernel.fn.__name__,
        tuple((parameter.name, compiled_in(parameter, value)) for parameter, value in pairs),
        tuple(launch.options.items()),
    )
