"""Sizes of the linear cross-entropy: how many logits are held at a time, and the blocks of the Triton kernels."""

HELD_LOGITS = 2**28  # logits in memory at a time; more tokens are computed in chunks
ALIGNMENT = 64  # columns; matrix products write to rows that are not aligned at half the speed
BLOCK = 4096  # logits that one Triton program reads at a time
WARPS = 8


def padded_vocabulary(vocabulary: int) -> int:
    """Returns the length of a row of logits: the vocabulary up to a multiple of ALIGNMENT."""
    return -(-vocabulary // ALIGNMENT) * ALIGNMENT
