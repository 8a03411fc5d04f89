"""Sizes of the Triton kernels of the LSTM."""

BLOCK = 512  # cells of one program
