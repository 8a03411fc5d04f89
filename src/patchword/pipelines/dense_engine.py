"""A detector or a segmenter on its device."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.pipelines.class_names import class_names
from patchword.recipes.dense.backbones import channels_of
from patchword.training.step import Precision

M = TypeVar("M", bound=Detector | Segmenter)


@dataclass(frozen=True)
class DenseEngine(Generic[M]):
    """A detector or a segmenter on its device. name: what the user opened, for messages."""

    name: str
    model: M
    device: torch.device
    precision: Precision

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; numbers if they have no names."""
        return class_names(self.model.card)

    @property
    def channels(self) -> int:
        """Channels of an image."""
        return channels_of(self.model)
