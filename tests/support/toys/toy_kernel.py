"""A toy kernel and a toy fusion rule: the worked examples of CONTRIBUTING.md, with the parts that they leave out.

The operation is registered once per process, when this file is imported; its self-test is taken off the list of all
self-tests, and a test puts it back for itself.
"""

from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn

from patchword.fusion.patterns import Fused, is_exactly
from patchword.kernels.common import availability
from patchword.kernels.common.register_op import register_op
from support.toys.worked_examples import worked_example

ran: list[str] = []  # "kernel", "kernel's shape" or "reference", in the order they ran


class Affine(nn.Module):
    """x * scale + shift: a part that no model has"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.rand(width)), nn.Parameter(torch.rand(width))

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * self.scale + self.shift


def scale_shift_reference(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    ran.append("reference")
    return x * scale + shift


def _launch(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """In place of Triton code."""
    ran.append("kernel")
    return torch.addcmul(shift, x, scale)


def _empty_output(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    ran.append("kernel's shape")
    return torch.empty_like(x)


def matches_reference(device: torch.device) -> bool:
    inputs = availability.TestInputs(device)
    given = inputs(3, 8), inputs(8), inputs(8, by=2.0)
    return bool(torch.allclose(_launch(*given), given[0] * given[1] + given[2], rtol=1e-5, atol=1e-5))


def _executed(section: str, given: dict[str, Any]) -> SimpleNamespace:
    """The names that the code of a worked example defines, and those it was given."""
    (code,) = worked_example(section)
    example = SimpleNamespace(**given)
    exec(compile(code, f"CONTRIBUTING.md, {section}", "exec"), vars(example))
    return example


kernel = _executed(
    "Add a kernel",
    {
        "Tensor": Tensor,
        "SelfTest": availability.SelfTest,
        "is_on_cuda": availability.is_on_cuda,
        "is_usable": availability.is_usable,
        "needs_grad": availability.needs_grad,
        "register_op": register_op,
        "scale_shift_reference": scale_shift_reference,
        "matches_reference": matches_reference,
        "_launch": _launch,
        "_empty_output": _empty_output,
    },
)
listed = availability._SELF_TESTS.pop()

rule = _executed(
    "Add a fusion rule",
    {
        "Affine": Affine,
        "Fused": Fused,
        "Tensor": Tensor,
        "cast": cast,
        "has_scale_shift_kernel": kernel.has_scale_shift_kernel,
        "is_exactly": is_exactly,
        "nn": nn,
        "scale_shift": kernel.scale_shift,
    },
)
