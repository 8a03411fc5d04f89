"""Depthwise 3 x 3 convolutions over maps of tokens, alone and fused with a residual or with separable projections."""
