"""Resize the mask of each box to its box, and place it in the image."""

from torch import Tensor

from patchword.kernels.mask_paste.reference import paste_masks_reference


def paste_masks(masks: Tensor, boxes: Tensor, size: tuple[int, int], *, rounded: bool) -> Tensor:
    """Return the mask probability of each pixel: (..., rows, columns), (..., 4) -> (..., *size).

    masks: probabilities inside each box. boxes: in pixels. size: height and width of the image.
    rounded: False samples the mask at the pixel centers, with zeros around it (detectron2, mmdet). True surrounds the
        mask by one row of zeros, widens the box as much, truncates its corners to integers, takes the last pixel as
        part of it, and resizes the mask to these pixels (torchvision).
    """
    return paste_masks_reference(masks, boxes, size, rounded)
