"""Targets of the mask branch: the mask of an object, cut out at a box."""

from torch import Tensor

from patchword.kernels.roi_align import roi_align_masks


def mask_targets(
    masks: Tensor, boxes: Tensor, index: Tensor, size: tuple[int, int], *, aligned: bool, threshold: float | None
) -> Tensor:
    """Return the target of each box: (batch, boxes, *size) in float32.

    masks: (batch, objects, height, width), 1 inside the object. boxes: (batch, boxes, 4). index: (batch, boxes), the
    object of each box. aligned: see `roi_align`, here with adaptive samples.
    threshold: least mean at which a cell is 1 and below which it is 0 (mmdet: 0.5), or None to keep the mean itself
    (torchvision).
    """
    soft = roi_align_masks(masks, boxes, index, size, aligned=aligned, samples="adaptive")
    return soft if threshold is None else (soft >= threshold).to(soft.dtype)
