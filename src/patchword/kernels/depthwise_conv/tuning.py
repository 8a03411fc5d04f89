"""Launch parameters of the depthwise kernels for inference (triton.py), by the sides and channels of the map."""

from typing import NamedTuple

_SPAN, _LANES = 7, 4  # rows per strip and lanes per program: the fastest of those tried on an H200


class Strips(NamedTuple):
    """span: rows per strip. columns: per lane. ahead: prefetched rows. full_programs: the lanes fill all programs"""

    span: int
    columns: int
    lanes: int
    block: int
    ahead: int
    full_programs: bool


def is_known(width: int) -> bool:
    return width % 32 == 0


def launch(images: int, height: int, map_width: int, width: int) -> tuple[Strips, int, int]:
    """Returns the strips, the number of programs, and the warps per program."""
    columns, ahead = (2, 2) if map_width % 2 == 0 else (1, 4)
    block = 64 if width % 64 == 0 else 32
    lanes = images * map_width // columns
    plan = Strips(_SPAN, columns, _LANES, block, ahead, lanes % _LANES == 0)
    return plan, -(-lanes // _LANES) * -(-height // _SPAN) * (width // block), block // 16
