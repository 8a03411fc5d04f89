"""Image families."""
