"""LOSSES: training objectives, generation and metrics; the model is an argument."""
