"""Chooses between the Triton kernels of a time step and their reference."""

from collections.abc import Callable

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest
from patchword.kernels.lstm.steps import (
    SavedSteps,
    StepsBackward,
    StepsForward,
    TorchStepsBackward,
    TorchStepsForward,
)


def steps_forward(pre_activations: Tensor, bound: float, whole: torch.dtype) -> StepsForward:
    """Returns the Triton kernel of a step, or the reference where the kernel cannot run."""
    if whole == torch.float32 and is_usable(pre_activations.device):
        from patchword.kernels.lstm.triton import TritonStepsForward

        return TritonStepsForward(pre_activations, bound)
    return TorchStepsForward(pre_activations, bound, whole)


def steps_backward(saved: SavedSteps, dtype: torch.dtype) -> StepsBackward:
    """Returns the Triton kernel of a step of the backward pass, or the reference where the kernel cannot run."""
    if saved.gates.dtype == torch.float32 and is_usable(saved.gates.device):
        from patchword.kernels.lstm.triton import TritonStepsBackward

        return TritonStepsBackward(saved, dtype)
    return TorchStepsBackward(saved, dtype)


def is_usable(device: torch.device) -> bool:
    """True if the Triton kernels can run there: on the current GPU, if their self-test passes."""
    return device.type == "cuda" and device.index == torch.cuda.current_device() and SELF_TEST.passes(device.index)


def _matches_reference_in_all_dtypes(device: torch.device) -> bool:
    from patchword.kernels.lstm.triton import TritonStepsBackward, TritonStepsForward

    dtypes = torch.float32, torch.bfloat16
    return all(matches_reference(device, dtype, TritonStepsForward, TritonStepsBackward) for dtype in dtypes)


SELF_TEST = SelfTest("recurrent steps", _matches_reference_in_all_dtypes)


def matches_reference(
    device: torch.device, dtype: torch.dtype, forward: Callable[..., StepsForward], back: Callable[..., StepsBackward]
) -> bool:
    """True if two steps forwards and backwards, with some cells clipped, match the reference."""
    inputs = torch.linspace(-3, 3, 2 * 2 * 3 * 64, device=device).sin().mul(4).view(2, 2, 3, 64).to(dtype)
    expected = _run_both(TorchStepsForward(inputs.clone(), 0.5, torch.float32), TorchStepsBackward, inputs)
    found = _run_both(forward(inputs.clone(), 0.5), back, inputs)
    return all(torch.allclose(one, other, 2e-2, 2e-3) for one, other in zip(found, expected, strict=True))


def _run_both(forward: StepsForward, back: Callable[..., StepsBackward], inputs: Tensor) -> list[Tensor]:
    held = inputs.new_empty(2, 3, 16)
    for number in range(2):
        forward.run(number, held)
    gates, cells, squashed, kept = forward.saved()
    backward = back(SavedSteps(gates, cells, squashed, kept, inputs, inputs), inputs.dtype)
    for number in (1, 0):
        backward.run(number, held)
    return [part.float() for part in (gates, cells, squashed, kept, held, backward.pre_activations)]
