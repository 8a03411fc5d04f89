"""The type of labels: DejaVu Sans, which matplotlib brings, or a font of the system for other scripts."""

from functools import cache
from pathlib import Path

from matplotlib import font_manager, get_data_path
from matplotlib.ft2font import FT2Font
from PIL import ImageFont

_OWN = Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans-Bold.ttf"
_OTHERS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Zen Hei"),
    *("WenQuanYi Micro Hei", "Microsoft YaHei", "SimHei", "PingFang SC", "Hiragino Sans GB", "Arial Unicode MS"),
)


def label_font(size: int, text: str) -> ImageFont.FreeTypeFont:
    """Return a font of this size that has the letters of a text; DejaVu Sans if none is installed."""
    return _opened(_file_for("".join(sorted(set(text)))), size)


@cache
def _file_for(letters: str) -> Path:
    if _has(_OWN, letters):
        return _OWN
    return next((path for path in _installed() if _has(path, letters)), _OWN)


@cache
def _installed() -> tuple[Path, ...]:
    files = {entry.name: Path(entry.fname) for entry in font_manager.fontManager.ttflist}
    return tuple(files[name] for name in _OTHERS if name in files)


@cache
def _codes(path: Path) -> frozenset[int]:
    return frozenset(FT2Font(str(path)).get_charmap())


def _has(path: Path, letters: str) -> bool:
    return {ord(letter) for letter in letters} <= _codes(path)


@cache
def _opened(path: Path, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(path), size)
