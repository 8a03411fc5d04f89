"""Launch parameters of the RoIAlign kernels, as data."""

MAX_LEVELS = 5  # maps that one launch reads
TILE = 2048  # elements per program: bins of a row times channels, if the channels are stored last
NARROW_TILE = 1024  # else, where a thread needs an address per element
WARPS = 4


def blocks(columns: int, channels: int, channels_last: bool) -> tuple[int, int]:
    """Return the bins and the channels per program, as powers of two. One program has all bins of a row."""
    column_block = 1 << (columns - 1).bit_length()
    whole = 1 << (channels - 1).bit_length()
    return column_block, max(1, min(whole, (TILE if channels_last else NARROW_TILE) // column_block))
