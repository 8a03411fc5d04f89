"""The picture of who meets whom."""

from patchword.reports.attention_pattern.descriptions import blocks, depth_of, pattern, percent
from patchword.reports.attention_pattern.figure import write_windows

__all__ = ["blocks", "depth_of", "pattern", "percent", "write_windows"]
