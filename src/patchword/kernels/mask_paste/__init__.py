"""Masks of boxes, pasted into the image."""

from patchword.kernels.mask_paste.operation import paste_masks

__all__ = ["paste_masks"]
