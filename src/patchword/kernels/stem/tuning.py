"""Sizes that the stem kernels support, and their launch parameters."""

# conv_stem_norm, for Hopper GPUs; the fastest of those tried on an H200
MAX_IMAGE_CHANNELS = 4
STEM_WIDTHS = range(16, 129)  # channels of a token
MAX_MATRIX_BYTES = 65536  # of the matrix that a program keeps
LINE_ALIGNMENT = 2  # numbers; loads of a line of a patch start at a multiple of it
STEM_ROWS = 64  # tokens per tile
STEM_DEPTH = 32  # numbers of a patch per matrix instruction
STEM_WARPS = 4
STEM_STAGES = 3
STEM_PROGRAMS = 4  # per multiprocessor
