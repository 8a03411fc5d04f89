"""One image with its label map as tensors: what transforms change and batches are made of."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.detection.orientation import upright_mask
from patchword.data.image.image_file import read_image
from patchword.data.segmentation.label_files import read_label_map
from patchword.data.segmentation.records import ClassTable, LabelledImage


@dataclass(frozen=True, eq=False)
class LabelledSample:
    """pixels: (channels, height, width) uint8. labels: (height, width) uint8, IGNORED where a pixel has no class."""

    pixels: Tensor
    labels: Tensor

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.labels.shape[0]), int(self.labels.shape[1])


def load_sample(one: LabelledImage, table: ClassTable, channels: int = 3) -> LabelledSample:
    """Read an image upright, with its label map."""
    array = np.array(read_image(one.image, channels))
    height, width = array.shape[:2]
    labels = table.labels(read_label_map(one.labels, table.coded), one.labels)
    turned = upright_mask(cast("NDArray[np.bool_]", labels), one.orientation)  # moves pixels of any dtype
    if turned.shape != (height, width):
        raise UserError(
            f"{one.labels}: the label map has another size than the image",
            expected=f"{width} x {height}",
            got=f"{turned.shape[1]} x {turned.shape[0]}",
            hint="patchword data check segment-images data=FOLDER lists all faults",
        )
    pixels = torch.from_numpy(array.reshape(height, width, channels)).permute(2, 0, 1).contiguous()
    return LabelledSample(pixels, torch.from_numpy(np.ascontiguousarray(turned)))
