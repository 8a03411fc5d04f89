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
