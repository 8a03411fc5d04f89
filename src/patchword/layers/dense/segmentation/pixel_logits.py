"""Logits of a segmenter together with the sizes that are needed to enlarge them to pixels."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from patchword.layers.dense.segmentation.blocks import enlarge

Size = tuple[int, int]  # height, width


@dataclass(frozen=True, eq=False)
class PixelLogits:
    """Logits of images, to be enlarged to their pixels.

    coarse: (batch, classes, rows, columns) of the padded images. padded, size: height and width with and without the
    padding, which is at the right and at the bottom.
    """

    coarse: Tensor
    padded: Size
    size: Size

    def enlarged(self) -> Tensor:
        """Return the logits of all pixels: (batch, classes, height, width)."""
        return enlarge(self.coarse, self.padded)[:, :, : self.size[0], : self.size[1]]


def pad_to_multiple(images: Tensor, multiple: int) -> Tensor:
    """Pad images (..., height, width) with zeros at the right and at the bottom to multiples in pixels."""
    height, width = images.shape[-2:]
    return images if multiple == 1 else F.pad(images, (0, -width % multiple, 0, -height % multiple))
