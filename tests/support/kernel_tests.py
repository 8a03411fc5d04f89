"""Shared by the tests of kernels: the device, the Triton marker, distances from float64, map sizes."""

import pytest
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
needs_triton = pytest.mark.usefixtures("triton")
MAPS = {  # batch, height, breadth
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
