"""Masks of boxes, pasted into the image."""

from patchword.kernels.mask_paste.operation import paste_binary_masks, paste_masks

__all__ = ["paste_binary_masks", "paste_masks"]
