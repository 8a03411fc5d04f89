"""Images of one size."""

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from patchword.core.card import Card
from patchword.layers.model import Model
from patchword.weights.export.inputs.base import OUTPUT, InputTensors, about


@dataclass(frozen=True)
class ImageInputs:
    card: Card
    shape: tuple[int, int, int]
    batch: int | None
    names: tuple[str, ...] = ("images",)

    def examples(self) -> list[InputTensors]:
        return [self._images(count) for count in ([self.batch] if self.batch else [1, 3])]

    def traced(self) -> InputTensors:
        return self._images(self.batch or 2)

    def shapes(self) -> Any:
        return None if self.batch else ({0: Dim("batch", min=1)},)

    def module(self, model: Model) -> nn.Module:
        return model

    def notes(self) -> dict[str, str]:
        count, card = self.batch or "batch", self.card
        channels, height, width = self.shape
        colours = {1: "grey", 3: "red, green, blue"}.get(channels, f"{channels} channels")
        return {
            "input": f"{self.names[0]}, float32 ({count}, {channels}, {height}, {width}): {colours}; rows from "
            "the top; pixel values 0 to 255, divided by 255, minus mean, divided by std, per channel",
            "image": f"upright (EXIF); resized (bicubic) so that it covers {height} x {width}, then centre-cropped",
            "mean": json.dumps(card.normalization.mean),
            "std": json.dumps(card.normalization.std),
            "output": f"{OUTPUT}, float32 ({count}, {card.config['classes']}): before the softmax, in the order of "
            "labels",
            **about(card),
        }

    def _images(self, count: int) -> InputTensors:
        """Return noise with the variance of normalised pixels."""
        return (torch.randn(count, *self.shape, generator=torch.Generator().manual_seed(count)),)
