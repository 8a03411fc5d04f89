"""Launch parameters of the kernels for non-maximum suppression, as data."""

MAX_BOXES = 32768  # per image; their pairs take 128 MiB
TILE = 2048  # words per program that the sweep reads at a time
PAIR_WARPS = 4


def sweep_blocks(words: int) -> tuple[int, int, int]:
    """Return the words and the rows that the sweep reads at a time, as powers of two, and its warps."""
    word_block = 1 << (words - 1).bit_length()
    return word_block, max(1, min(64, TILE // word_block)), 4 if word_block <= 32 else 8
