"""The base class of every model in the registry."""

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from patchword.core.card import Card


class Model(nn.Module):
    """A model with a head and a card."""

    card: Card  # set by the registry: the model's name and sizes
    head: nn.Module

    if TYPE_CHECKING:

        def __call__(self, *inputs: Any, **options: Any) -> Tensor:
            """Call `forward` and the hooks. A BERT with the head "pretraining" returns a pair of tensors."""
