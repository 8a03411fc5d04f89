"""The loss of a whole detector."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from torch import Tensor

from patchword.core.geometry.objects import Targets
from patchword.layers.dense.detector import Detector
from patchword.objectives.detection.losses import Losses
from patchword.objectives.detection.shared_loss import ONE_PROCESS, SharedLoss

D = TypeVar("D", bound=Detector, contravariant=True)


@dataclass(frozen=True)
class DetectionLoss(ABC, Generic[D]):
    """How detectors of one class learn."""

    def __call__(self, detector: D, images: Tensor, targets: Targets, shared: SharedLoss = ONE_PROCESS) -> Losses:
        """Return the losses of a batch by name; their sum is what a training step minimizes.

        Without an object in the batch, they are those of the background.
        """
        return self.on_levels(detector, detector.features(images), targets.with_room(), shared)

    @abstractmethod
    def on_levels(
        self, detector: D, levels: Sequence[Tensor], targets: Targets, shared: SharedLoss = ONE_PROCESS
    ) -> Losses:
        """Return the losses from the maps of `detector.features`. targets: with room for at least one object."""

    def configured(self, config: Mapping[str, Any]) -> Self:
        """Return the loss with the values that the config of a detector gives."""
        return self
