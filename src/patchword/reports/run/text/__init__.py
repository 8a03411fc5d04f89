"""The reports of runs on texts."""
