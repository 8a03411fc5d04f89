"""The golden tensors of operators for dense prediction, and a check that an operator compiles as one graph."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from support.kernel_tests import assert_as_exact, farthest

GOLDEN = Path(__file__).parents[2] / "golden" / "dense_operators.safetensors"


@cache
def _tensors() -> dict[str, Tensor]:
    return load_file(GOLDEN)


def golden(name: str) -> Tensor:
    """Return a copy of one golden tensor."""
    return _tensors()[name].clone()


def assert_golden(function: Callable[..., Tensor], name: str, *given: Any, **named: Any) -> None:
    """Assert that function(*given) is about as close to its float64 result as the golden tensor is.

    The golden tensor must be that result within 1e-5 of its scale; a different formula is much farther away.
    """
    wide = [one.double() if isinstance(one, Tensor) and one.is_floating_point() else one for one in given]
    exact, expected = function(*wide, **named), golden(name)
    assert farthest([expected], [exact]) < 1e-5, "a different function"
    assert_as_exact([function(*given, **named)], [expected], [exact])


def assert_compiles(function: Callable[..., Any], *given: Any, **named: Any) -> None:
    """Compile without a graph break, and compare with the result of eager mode."""
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*given, **named), function(*given, **named), rtol=0, atol=0)
