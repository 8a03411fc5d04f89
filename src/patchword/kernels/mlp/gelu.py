"""GELU whose gradient is quick on processors for which torch has no vectorised one (64-bit ARM, Apple's among them).

There torch computes the gradient element by element; the same formula in vectorised steps takes a third of the time.
The plain twin is torch.nn.functional.gelu, which is used everywhere else.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_IS_SLOW = torch.backends.cpu.get_cpu_capability() == "DEFAULT"


def gelu(inputs: Tensor) -> Tensor:
    """x * (1 + erf(x / sqrt(2))) / 2"""
    pays = _IS_SLOW and inputs.device.type == "cpu" and inputs.requires_grad and not torch.compiler.is_compiling()
    return gelu_with_fast_backward(inputs) if pays else F.gelu(inputs)


def may_overwrite(inputs: Tensor) -> bool:
    """What nobody else holds may be overwritten where no gradient is wanted and nobody looks inside. On a CPU that is
    quicker than new memory, whose pages the system must find first."""
    if inputs.device.type != "cpu" or (inputs.requires_grad and torch.is_grad_enabled()):
        return False
    return not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()


def gelu_in_place(inputs: Tensor) -> Tensor:
    overwritten: Tensor = torch.ops.aten.gelu_(inputs)
    return overwritten


def gelu_with_fast_backward(inputs: Tensor) -> Tensor:
    answer: Tensor = _GeluWithFastBackward.apply(inputs)  # type: ignore[no-untyped-call]  # torch has no types
    return answer


class _GeluWithFastBackward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(inputs: Tensor) -> Tensor:
        return F.gelu(inputs)

    @staticmethod
    def setup_context(context: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        context.save_for_backward(inputs[0])
        context.save_for_forward(inputs[0])

    @staticmethod
    def jvp(context: Any, *tangents: Tensor) -> Tensor:
        inputs: Tensor = context.saved_tensors[0]
        return tangents[0] * (_below(inputs) + inputs * _density(inputs))

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        (gradient,) = gradients
        inputs: Tensor = context.saved_tensors[0]
        if torch.is_grad_enabled():  # the gradient's own gradient is wanted: every step must be seen
            return gradient * (_below(inputs) + inputs * _density(inputs))
        return _below(inputs).addcmul_(inputs, _density(inputs)).mul_(gradient)


def _below(inputs: Tensor) -> Tensor:
    """the chance that a normal number is below x"""
    return torch.erf(inputs * math.sqrt(0.5)).add(1).mul(0.5)


def _density(inputs: Tensor) -> Tensor:
    return torch.exp(inputs * inputs * -0.5) * (1 / math.sqrt(2 * math.pi))
