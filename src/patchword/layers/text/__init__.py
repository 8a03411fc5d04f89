"""Text models and the parts that only they have."""
