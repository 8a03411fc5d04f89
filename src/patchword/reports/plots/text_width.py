"""Measures text before it is drawn: its width, the size at which it fits, and its lines."""

from functools import lru_cache

from matplotlib.font_manager import findfont
from PIL import ImageFont

_MEASURED = 100  # points at which widths are measured


@lru_cache(maxsize=8)
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(findfont(f"DejaVu Sans:{'bold' if bold else 'normal'}"), size)


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return the width of one line in inches. size: in points."""
    return font(_MEASURED, bold).getlength(text) * size / _MEASURED / 72


def fitting_size(text: str, width: float, size: float, bold: bool = False) -> float:
    """Return `size`, or the smaller size at which a line is `width` inches wide."""
    return size * min(1.0, width / max(text_width(text, size, bold), 1e-6))


def wrapped(text: str, width: float, size: float, bold: bool = False) -> str:
    """Break a text at its spaces into lines of at most `width` inches; a longer word has its own line."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold) <= 1.001 * width:  # a line of `fitting_size` is not broken
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)
