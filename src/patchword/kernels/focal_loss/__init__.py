"""The sigmoid focal loss of each class, in one pass."""

from patchword.kernels.focal_loss.operation import focal_loss

__all__ = ["focal_loss"]
