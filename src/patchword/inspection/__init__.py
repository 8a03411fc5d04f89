"""A look into a run: attention, sharpness, robustness."""
