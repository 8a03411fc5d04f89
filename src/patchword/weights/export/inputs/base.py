"""What an exported file reads: tensors for tracing and for comparing, dynamic axes, and their description."""

import json
from typing import Any, Protocol

from torch import Tensor, nn

from patchword.core.card import Card
from patchword.layers.model import Model
from patchword.weights.io.saving import describe

OUTPUT = "scores"
InputTensors = tuple[Tensor, ...]


class Inputs(Protocol):
    @property
    def names(self) -> tuple[str, ...]: ...

    def examples(self) -> list[InputTensors]:
        """Return inputs for comparing the file's outputs with the model's."""
        ...

    def traced(self) -> InputTensors:
        """Return inputs for tracing the model."""
        ...

    def shapes(self) -> Any:
        """Return the dynamic axes in the format of torch.export."""
        ...

    def module(self, model: Model) -> nn.Module:
        """Return a module that calls the model with these inputs."""
        ...

    def notes(self) -> dict[str, str]:
        """Describe the inputs and outputs, for users who have only the file."""
        ...


def about(card: Card) -> dict[str, str]:
    """Return the notes that every file has: the labels, and the card of the model."""
    return {
        "labels": json.dumps(card.labels, ensure_ascii=False),
        "patchword": json.dumps(describe(card), ensure_ascii=False),
    }
