"""What all detectors have in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from patchword.core.geometry.objects import Detections
from patchword.layers.dense.constants import constant
from patchword.layers.model import ModuleWithCard


class Detector(ModuleWithCard, ABC):
    """Detects objects in images; `objectives.detection` has the losses.

    backbone: returns maps of the images. masks: heads that predict masks; most detectors have none.
    """

    backbone: nn.Module
    masks: nn.ModuleList

    if TYPE_CHECKING:

        def __call__(self, images: Tensor, sizes: Tensor | None = None) -> Detections:
            """Call `forward` and the hooks."""

    def forward(self, images: Tensor, sizes: Tensor | None = None) -> Detections:
        """Detect the objects of images (batch, channels, height, width).

        sizes: (batch, 2), height and width of each image without its padding; by default there is none.
        """
        if sizes is None:
            sizes = constant(images.shape[-2:], torch.long, images.device).repeat(images.shape[0], 1)
        return self.detect(self.features(images), sizes)

    @abstractmethod
    def features(self, images: Tensor) -> list[Tensor]:
        """Return the maps that the heads read, finest first."""

    @abstractmethod
    def detect(self, levels: Sequence[Tensor], sizes: Tensor) -> Detections:
        """Detect objects on the maps of `features`."""

    @abstractmethod
    def class_outputs(self) -> list[nn.Module]:
        """Return the layers that compute the logits of the classes."""
