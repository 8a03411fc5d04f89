"""What the tests of kernels share: the device, the need for Triton, distances, map sizes."""

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
    """The largest difference relative to what is expected, over the answer and each gradient.

    The gradient of the keys' bias is zero, whence the least size.
    """
    pairs = [(one.detach().double(), other.detach().double()) for one, other in zip(found, expected, strict=True)]
    least = 1e-2 * max(float(other.norm()) for _, other in pairs)
    return max(float((one - other).norm()) / max(float(other.norm()), least) for one, other in pairs)


def assert_as_exact(kernel, reference, exact, factor=4.0):
    """The kernel is about as far from float64 as the reference in the same dtype, whatever the machine's own rounding.

    kernel, reference, exact: lists of tensors, the last in float64. A small multiple of the reference's own distance is
    allowed, and of one rounding of the dtype where the reference is exact by chance.
    """
    ours, theirs = farthest(kernel, exact), farthest(reference, exact)
    least = torch.finfo(reference[0].dtype).eps
    assert ours <= factor * max(theirs, least), f"kernel {ours:.2e}, reference {theirs:.2e} from float64"
