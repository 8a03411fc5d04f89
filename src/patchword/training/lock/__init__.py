"""The lock of a run folder: at most one run uses it at a time."""
