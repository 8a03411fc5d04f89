"""Block by block comparison with another library, which names the first block that drifts."""

import torch
from torch import Tensor, nn

from helpers import difference
from patchword.layers import Pyramid


def states(model: Pyramid, images: Tensor) -> list[Tensor]:
    """What enters the first block, what leaves each block, and the scores."""
    encoder = model.stages[0].encoder
    seen: list[Tensor] = []
    hooks = [encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))]
    hooks += [block.register_forward_hook(lambda *call: seen.append(call[2])) for block in encoder.blocks]
    with torch.no_grad():
        seen.append(model(images))
    for hook in hooks:
        hook.remove()
    return seen


def their_states(model: nn.Module, images: Tensor, **options: object) -> list[Tensor]:
    """The same of a model of Hugging Face's."""
    with torch.no_grad():
        output = model.eval()(images, output_hidden_states=True, **options)
    return [*output.hidden_states, output.logits]


def first_drift(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-5) -> str | None:
    """The name of the first place where the two differ, or None if they agree everywhere."""
    names = ["embedding", *(f"block {index}" for index in range(len(ours) - 2)), "scores"]
    for name, one, other in zip(names, ours, theirs, strict=True):
        if difference(one, other) > tolerance:
            return name
    return None
