"""Masks of boxes, pasted into the image."""

from patchword.kernels.mask_paste import paste_binary_masks

__all__ = ["paste_binary_masks"]
