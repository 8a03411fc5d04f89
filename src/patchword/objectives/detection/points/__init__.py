"""The objective of RepPoints v2: targets of points, corners and the semantic map, and the losses."""
