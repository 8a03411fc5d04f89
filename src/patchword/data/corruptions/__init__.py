"""The 15 common corruptions of images at five severities (after Hendrycks and Dietterich, 2019)."""

from patchword.data.corruptions.corruptions import CORRUPTIONS, GROUPS, SEVERITIES, corrupt

__all__ = ["CORRUPTIONS", "GROUPS", "SEVERITIES", "corrupt"]
