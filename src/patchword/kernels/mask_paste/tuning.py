"""Launch parameters of the mask paste kernel, as data."""

BLOCK = (16, 128)  # rows and columns of pixels per program
WARPS = 4
