"""The picture of who meets whom."""

from patchword.reports.windows.picture import write_windows
from patchword.reports.windows.words import blocks, depth_of, pattern, percent

__all__ = ["blocks", "depth_of", "pattern", "percent", "write_windows"]
