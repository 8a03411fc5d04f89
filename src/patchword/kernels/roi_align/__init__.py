"""RoIAlign: the features of boxes, sampled from a pyramid of maps at one size."""

from patchword.kernels.roi_align.operation import box_levels, roi_align, roi_align_masks

__all__ = ["box_levels", "roi_align", "roi_align_masks"]
