"""LSTM layers with a projection and clipped values, trained with few operations per time step.

On a GPU such a layer is bound by the launches of its operations. The loop of the reference takes ten operations per
step, and its backward pass 33. Here a step of the backward pass takes seven, and four in each direction with the Triton
kernels (triton.py): whatever does not depend on another step is computed for all steps at once, before or after the
loop, in memory that is allocated once.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from patchword.kernels.lstm.dispatch import steps_backward, steps_forward
from patchword.kernels.lstm.reference import Bounds as Bounds
from patchword.kernels.lstm.reference import Weights as Weights
from patchword.kernels.lstm.reference import lstm_reference as lstm_reference
from patchword.kernels.lstm.steps import SavedSteps


def clipped_lstm(tokens: Tensor, weights: Weights, bounds: Bounds, whole: torch.dtype) -> Tensor:
    """(directions, words, batch, inputs) -> (directions, words, batch, outputs)

    whole: dtype of gates and cells, whose rounding errors add up over a sequence. Matrix products are computed in the
        dtype of tokens and weights.
    """
    needs_grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (tokens, *weights))
    is_traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if needs_grad and not is_traced:
        return fused_lstm(tokens, weights, bounds, whole)
    return lstm_reference(tokens, *weights, bounds, whole)


def fused_lstm(tokens: Tensor, weights: Weights, bounds: Bounds, whole: torch.dtype) -> Tensor:
    """Computes `clipped_lstm` with a backward pass of its own."""
    states: Tensor = _FusedLstm.apply(tokens.contiguous(), *weights, bounds, whole)  # type: ignore[no-untyped-call]  # torch has no types
    return states


class _FusedLstm(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tokens: Tensor, *others: Any) -> Tensor:
        *weights, context.bounds, context.whole = others
        saved = _forwards(tokens, Weights(*weights), context.bounds, context.whole)
        context.save_for_backward(tokens, *weights, *saved)
        return saved.states[:, 1:]

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), needed = gradients, context.needs_input_grad[:5]
        tokens, *others = context.saved_tensors
        weights, saved = Weights(*others[:4]), SavedSteps(*others[4:])
        if torch.is_grad_enabled():  # second derivatives need a graph of every step
            states = lstm_reference(tokens, *weights, context.bounds, context.whole)
            inputs = [tensor for tensor, need in zip((tokens, *weights), needed, strict=True) if need]
            found = iter(torch.autograd.grad(states, inputs, gradient, create_graph=True))
            return *(next(found) if need else None for need in needed), None, None
        pre_activations, products = _backwards(gradient, weights, saved)
        return *_gradients(needed, tokens, weights, saved, pre_activations, products), None, None


def _forwards(tokens: Tensor, weights: Weights, bounds: Bounds, whole: torch.dtype) -> SavedSteps:
    directions, words, batch, _ = tokens.shape
    cells, width = weights.output.shape[1:]
    entering = torch.baddbmm(weights.bias, tokens.flatten(1, 2), weights.inputs).unflatten(1, (words, batch))
    products = entering.new_empty(directions, words, batch, width)
    state = entering.new_empty(directions, words + 1, batch, width)
    held = entering.new_empty(directions, batch, cells)
    state[:, 0] = 0
    states, steps = state.unbind(1), steps_forward(entering, bounds.cell, whole)
    for number, (gates, product) in enumerate(zip(entering.unbind(1), products.unbind(1), strict=True)):
        gates.baddbmm_(states[number], weights.recurrent)
        steps.run(number, held)
        torch.bmm(held, weights.output, out=product)
        torch.clamp(product, -bounds.output, bounds.output, out=states[number + 1])
    return SavedSteps(*steps.saved(), state, products.abs() <= bounds.output)


def _backwards(gradient: Tensor, weights: Weights, saved: SavedSteps) -> tuple[Tensor, Tensor]:
    """Returns the gradients of the gates' pre-activations, and of the outputs before they are clipped."""
    products = gradient.clone(memory_format=torch.contiguous_format)
    held = products.new_empty(*saved.cells[:, 0].shape)
    to_state, to_held = weights.recurrent.transpose(1, 2), weights.output.transpose(1, 2)
    steps = steps_backward(saved, products.dtype)
    each, kept, pre_activations = products.unbind(1), saved.output_kept.unbind(1), steps.pre_activations.unbind(1)
    for number in reversed(range(len(each))):
        if number + 1 < len(each):
            each[number].baddbmm_(pre_activations[number + 1], to_state)
        each[number].mul_(kept[number])
        torch.bmm(each[number], to_held, out=held)
        steps.run(number, held)
    return steps.pre_activations, products


def _gradients(
    needed: tuple[bool, ...],
    tokens: Tensor,
    weights: Weights,
    saved: SavedSteps,
    pre_activations: Tensor,
    products: Tensor,
) -> list[Tensor | None]:
    """Returns the gradients of the tokens and of each weight, each by one matrix product over all time steps."""
    pre_activations, products = pre_activations.flatten(1, 2), products.flatten(1, 2)
    gradients: tuple[Callable[[], Tensor], ...] = (
        lambda: torch.bmm(pre_activations, weights.inputs.transpose(1, 2)).view_as(tokens),
        lambda: torch.bmm(tokens.flatten(1, 2).transpose(1, 2), pre_activations),
        lambda: torch.bmm(saved.states[:, :-1].flatten(1, 2).transpose(1, 2), pre_activations),
        lambda: pre_activations.sum(1, keepdim=True),
        lambda: torch.bmm(saved.held(products.dtype).flatten(1, 2).transpose(1, 2), products),
    )
    return [compute() if need else None for compute, need in zip(gradients, needed, strict=True)]
