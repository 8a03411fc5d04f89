"""A segmenter on its device, which segments images of any sizes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from torch import Tensor

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.pipelines.dense_engine import DenseEngine
from patchword.pipelines.detection.pixels import read_pixels
from patchword.pipelines.image_inputs import OneImage
from patchword.pipelines.segmentation.answer import LabelArray, SegmentationAnswer
from patchword.recipes.segmentation.inference import InferenceOptions, card_options, predict_label_maps
from patchword.reports.detection.colors import Color
from patchword.reports.segmentation.overlay import colors_of

_READ = 8  # images that are read at once


@dataclass(frozen=True)
class SegmentationEngine(DenseEngine[Segmenter]):
    """A segmenter on its device. name: what the user opened, for messages. colors: of the classes, if the training
    data gave them.
    """

    options: InferenceOptions = field(default_factory=InferenceOptions)
    colors: tuple[Color, ...] = ()

    @classmethod
    def of(
        cls,
        model: Segmenter,
        device: str = "auto",
        precision: Literal["auto", "float32", "bfloat16"] = "auto",
        name: str = "",
        options: InferenceOptions | None = None,
        colors: tuple[Color, ...] = (),
    ) -> "SegmentationEngine":
        """Move a segmenter to its device, in evaluation mode. options: None segments as the card says."""
        target = pick_device(device)
        chosen = options or card_options(model.card)
        found = pick_precision(precision, target)
        return cls(name or model.card.model, model.to(target).eval(), target, found, chosen, colors)

    def segment(self, images: Sequence[OneImage]) -> list[SegmentationAnswer | UserError]:
        """Return the label map of each image, or why the image cannot be read."""
        return [answer for part in read_pixels(images, self.channels, _READ) for answer in self._answers(part)]

    def _answers(self, read: Sequence[Tensor | UserError]) -> Iterator[SegmentationAnswer | UserError]:
        pixels = [one for one in read if isinstance(one, Tensor)]
        found = iter(predict_label_maps(self.model, pixels, self.options, self.precision) if pixels else [])
        colors = colors_of(len(self.labels), self.colors)
        for one in read:
            if isinstance(one, UserError):
                yield one
            else:
                yield SegmentationAnswer(cast(LabelArray, next(found).numpy()), self.labels, colors)
