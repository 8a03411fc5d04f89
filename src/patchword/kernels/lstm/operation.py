"""Recurrent layers with a projection and with bounds, trained with few operations a step.

On a GPU such a layer waits for operations to begin, not for their work. The plain loop takes ten a step, and torch's
gradient of it 33. Here a step backwards is seven, and where Triton is there (lstm_triton) it is four each way: whatever
does not wait for another step is computed for all words at once, before or after the loop, and all goes into memory
that was fetched once. The plain twin is used where no gradient is wanted, where the gradient's own gradient is, and
where torch must see every step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from patchword.kernels.lstm.steps import Read, steps_back, steps_of


class Weights(NamedTuple):
    """Of each direction. Gates lie in the order i, f, o, g."""

    inputs: Tensor  # (directions, inputs, 4 * cells)
    recurrent: Tensor  # (directions, outputs, 4 * cells)
    bias: Tensor  # (directions, 1, 4 * cells)
    output: Tensor  # (directions, cells, outputs)


class Bounds(NamedTuple):
    """of both signs"""

    cell: float
    output: float


def clipped_lstm(tokens: Tensor, weights: Weights, bounds: Bounds, whole: torch.dtype) -> Tensor:
    """(directions, words, batch, inputs) -> (directions, words, batch, outputs)

    Products are computed in the precision of tokens and weights; gates and cells, which add up over a text, in `whole`.
    """
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (tokens, *weights))
    seen = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    if wanted and not seen:
        return quick_lstm(tokens, weights, bounds, whole)
    return lstm_reference(tokens, *weights, bounds, whole)


def lstm_reference(
    tokens: Tensor, inputs: Tensor, recurrent: Tensor, bias: Tensor, output: Tensor, bounds: Bounds, whole: torch.dtype
) -> Tensor:
    directions, words, batch, _ = tokens.shape
    cells, width = output.shape[1:]
    # What enters is multiplied for all words at once; only what depends on the word before waits for it.
    entering = torch.baddbmm(bias, tokens.flatten(1, 2), inputs).unflatten(1, (words, batch))
    cell = tokens.new_zeros(directions, batch, cells, dtype=whole)
    state = tokens.new_zeros(directions, batch, width)
    states = []
    for product in entering.unbind(1):
        gates = torch.baddbmm(product, state, recurrent).to(whole)
        inward, forget, outward = gates[..., : 3 * cells].sigmoid().chunk(3, -1)
        cell = torch.addcmul(inward * gates[..., 3 * cells :].tanh(), forget, cell)
        cell = cell.clamp(-bounds.cell, bounds.cell)
        held = (outward * cell.tanh()).to(output.dtype)
        state = torch.bmm(held, output).clamp(-bounds.output, bounds.output)
        states.append(state)
    return torch.stack(states, 1)


def quick_lstm(tokens: Tensor, weights: Weights, bounds: Bounds, whole: torch.dtype) -> Tensor:
    answer: Tensor = _Quick.apply(tokens.contiguous(), *weights, bounds, whole)  # type: ignore[no-untyped-call]  # torch has no types
    return answer


class _Quick(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, tokens: Tensor, *others: Any) -> Tensor:
        *weights, context.bounds, context.whole = others
        read = _forwards(tokens, Weights(*weights), context.bounds, context.whole)
        context.save_for_backward(tokens, *weights, *read)
        return read.states[:, 1:]

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), needed = gradients, context.needs_input_grad[:5]
        tokens, *others = context.saved_tensors
        weights, read = Weights(*others[:4]), Read(*others[4:])
        if torch.is_grad_enabled():  # the gradient's own gradient is wanted: every step must be seen
            answer = lstm_reference(tokens, *weights, context.bounds, context.whole)
            asked = [tensor for tensor, need in zip((tokens, *weights), needed, strict=True) if need]
            found = iter(torch.autograd.grad(answer, asked, gradient, create_graph=True))
            return *(next(found) if need else None for need in needed), None, None
        sums, products = _backwards(gradient, weights, read)
        return *_gradients(needed, tokens, weights, read, sums, products), None, None


def _forwards(tokens: Tensor, weights: Weights, bounds: Bounds, whole: torch.dtype) -> Read:
    directions, words, batch, _ = tokens.shape
    cells, width = weights.output.shape[1:]
    entering = torch.baddbmm(weights.bias, tokens.flatten(1, 2), weights.inputs).unflatten(1, (words, batch))
    products = entering.new_empty(directions, words, batch, width)
    state = entering.new_empty(directions, words + 1, batch, width)
    held = entering.new_empty(directions, batch, cells)
    state[:, 0] = 0
    states, steps = state.unbind(1), steps_of(entering, bounds.cell, whole)
    for number, (gates, product) in enumerate(zip(entering.unbind(1), products.unbind(1), strict=True)):
        gates.baddbmm_(states[number], weights.recurrent)
        steps.take(number, held)
        torch.bmm(held, weights.output, out=product)
        torch.clamp(product, -bounds.output, bounds.output, out=states[number + 1])
    return Read(*steps.read(), state, products.abs() <= bounds.output)


def _backwards(gradient: Tensor, weights: Weights, read: Read) -> tuple[Tensor, Tensor]:
    """The gradients of the sums inside the gates, and of the products with `output` before their bound."""
    products = gradient.clone(memory_format=torch.contiguous_format)
    held = products.new_empty(*read.cells[:, 0].shape)
    to_state, to_held = weights.recurrent.transpose(1, 2), weights.output.transpose(1, 2)
    steps = steps_back(read, products.dtype)
    each, kept, sums = products.unbind(1), read.output_kept.unbind(1), steps.sums.unbind(1)
    for number in reversed(range(len(each))):
        if number + 1 < len(each):
            each[number].baddbmm_(sums[number + 1], to_state)
        each[number].mul_(kept[number])
        torch.bmm(each[number], to_held, out=held)
        steps.take(number, held)
    return steps.sums, products


def _gradients(
    needed: tuple[bool, ...], tokens: Tensor, weights: Weights, read: Read, sums: Tensor, products: Tensor
) -> list[Tensor | None]:
    """Of the tokens and of each weight: one product over all words."""
    sums, products = sums.flatten(1, 2), products.flatten(1, 2)
    ways: tuple[Callable[[], Tensor], ...] = (
        lambda: torch.bmm(sums, weights.inputs.transpose(1, 2)).view_as(tokens),
        lambda: torch.bmm(tokens.flatten(1, 2).transpose(1, 2), sums),
        lambda: torch.bmm(read.states[:, :-1].flatten(1, 2).transpose(1, 2), sums),
        lambda: sums.sum(1, keepdim=True),
        lambda: torch.bmm(read.held(products.dtype).flatten(1, 2).transpose(1, 2), products),
    )
    return [way() if need else None for way, need in zip(ways, needed, strict=True)]
