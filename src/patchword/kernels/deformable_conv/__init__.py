"""Deformable 3x3 convolution: each tap of the kernel reads the map at its own offset."""

from patchword.kernels.deformable_conv.operation import deformable_conv

__all__ = ["deformable_conv"]
