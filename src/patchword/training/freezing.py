"""Fine-tuning with weights that stay fixed: a linear probe, or gradual unfreezing (Howard and Ruder, 2018)."""

from collections.abc import Callable
from typing import Literal

from torch import nn

from patchword.training.optimizer import layer_indices

Freeze = Literal["none", "backbone", "gradual"]
HEAD = "head."  # the prefix of the head's weights


def freeze_backbone(model: nn.Module) -> None:
    """Fix all weights but those of the head, which then computes a linear probe."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(HEAD))


def epoch_starter(model: nn.Module, freeze: Freeze) -> Callable[[int], None]:
    """Return the function that fixes weights of a model in training mode at the start of an epoch, counted from 0.

    With "gradual" the first epoch trains the head, and each further epoch trains one more block from the top. Fixed
    parts are in evaluation mode: no dropout, and the running statistics of batch norms stay.
    """
    order = layer_indices(name for name, _ in model.named_parameters())
    top = max(order.values(), default=0)

    def start(epoch: int) -> None:
        if freeze == "gradual":
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(name.startswith(HEAD) or (epoch > 0 and order[name] >= top - epoch))
        if freeze != "none":
            for module in model.modules():
                if not any(parameter.requires_grad for parameter in module.parameters()) and _has_weights(module):
                    module.eval()

    return start


def _has_weights(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None
