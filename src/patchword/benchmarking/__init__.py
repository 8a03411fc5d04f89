"""Ours and other libraries side by side, in one process, on the same inputs and with the same weights."""
