"""The focal loss of dense heads, with a kernel behind it."""

from patchword.kernels.focal_loss import focal_loss

__all__ = ["focal_loss"]
