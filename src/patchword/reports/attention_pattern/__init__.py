"""Figures of attention patterns: which tokens attend to which."""

from patchword.reports.attention_pattern.descriptions import blocks, depth_of, describe, percent
from patchword.reports.attention_pattern.figure import write_windows
from patchword.reports.attention_pattern.text_descriptions import describe_text, whose
from patchword.reports.attention_pattern.text_figure import write_text_windows

__all__ = [
    "blocks",
    "depth_of",
    "describe",
    "describe_text",
    "percent",
    "whose",
    "write_text_windows",
    "write_windows",
]
