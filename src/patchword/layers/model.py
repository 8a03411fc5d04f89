"""The base classes of every model in the registry and of everything else that is saved with a card."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from patchword.core.card import Card, with_classes


class ModuleWithCard(nn.Module):
    """A module that `patchword.save` writes and `patchword.load` reads."""

    card: Card  # set where it is created by name: the name and the sizes


class Model(ModuleWithCard):
    """A model with a head and a card."""

    head: nn.Module
    new_head: Callable[[int], nn.Module]  # set by the registry: classes -> a newly initialized head

    if TYPE_CHECKING:

        def __call__(self, *inputs: Any, **options: Any) -> Tensor:
            """Call `forward` and the hooks. A BERT with the head "pretraining" returns a pair of tensors."""

    def reset_classifier(self, classes: int) -> None:
        """Replace the head by a newly initialized one for this number of classes; all other weights stay.

        >>> model = patchword.load("runs/mine")
        >>> model.reset_classifier(5)
        """
        head = self.new_head(classes)
        self.head = head.to(next(self.parameters()).device).train(self.training)
        self.card = with_classes(self.card, classes)
