"""Launch parameters of the kernels of deformable convolution, as data."""

PLACES = 64  # pairs of cell and tap per program
CHANNELS = 32  # per step; a power of two
WARPS = 4
