"""IoU of masks in run lengths."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patchword.core.masks.batch import MaskBatch, intersections
from patchword.core.masks.run_lengths import RunLengths, one_size


def mask_iou(
    masks: Sequence[RunLengths], others: Sequence[RunLengths], crowd: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Return the IoU of each pair, of shape (masks, others). All masks have one size.

    crowd: per mask of others; if True, the intersection is divided by the area of the mask instead of the union.
    """
    if not len(masks) or not len(others):
        return np.zeros((len(masks), len(others)))
    one_size([*masks, *others])
    batch, other_batch = MaskBatch.join(masks), MaskBatch.join(others)
    first, second = (index.ravel() for index in np.indices((len(masks), len(others))))
    shared = intersections(batch, other_batch, first, second).reshape(len(masks), len(others))
    union = batch.areas[:, None] + other_batch.areas - shared
    if crowd is not None:
        union = np.where(crowd, batch.areas[:, None], union)
    return shared / np.where(shared == 0, 1, union)
