"""Non-maximum suppression of batches of boxes."""

from patchword.kernels.nms.operation import nms

__all__ = ["nms"]
