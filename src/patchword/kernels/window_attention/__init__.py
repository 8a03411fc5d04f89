"""Attention inside the rectangles of a map: windows, shifted windows, stripes and pales."""

from patchword.kernels.window_attention.operation import HeadGroup, window_attention
from patchword.kernels.window_attention.tiling import Rectangles, Side

__all__ = ["HeadGroup", "Rectangles", "Side", "window_attention"]
