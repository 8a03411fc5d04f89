"""The 15 common corruptions of images at five severities (after Hendrycks and Dietterich, 2019)."""

from patchword.data.corruptions.corruptions import GROUPS, KINDS, SEVERITIES, corrupted

__all__ = ["GROUPS", "KINDS", "SEVERITIES", "corrupted"]
