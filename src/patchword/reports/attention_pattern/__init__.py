"""Figures of attention patterns: which tokens attend to which."""

from patchword.reports.attention_pattern.descriptions import blocks, depth_of, describe, percent
from patchword.reports.attention_pattern.figure import write_windows

__all__ = ["blocks", "depth_of", "describe", "percent", "write_windows"]
