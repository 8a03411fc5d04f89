"""Launch parameters of the focal loss kernels, as data."""

BLOCK = 1024  # logits per program
WARPS = 4
