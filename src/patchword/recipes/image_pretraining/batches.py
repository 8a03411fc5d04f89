"""Batches of masked images."""

from typing import NamedTuple

import torch
from torch import Tensor

from patchword.objectives.masked_image import MaskedImages


class MaskedImageBatch(NamedTuple):
    """inputs: (batch, channels, height, width), normalized. mask: (batch, patches), True for masked patches.
    samples: the indices of the images in the data set"""

    inputs: Tensor
    mask: Tensor
    samples: Tensor

    @property
    def masked(self) -> MaskedImages:
        return MaskedImages(self.inputs, self.mask)

    @property
    def weight(self) -> int:
        return len(self.inputs)

    @property
    def device(self) -> torch.device:
        return self.inputs.device

    def split(self, parts: int) -> list["MaskedImageBatch"]:
        pieces = zip(*(tensor.chunk(parts) for tensor in self), strict=True)
        return [MaskedImageBatch(*piece) for piece in pieces]
