"""Name tables of segmenters."""
