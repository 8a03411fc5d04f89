"""LOSSES: what is learned and how it is scored; the model is an argument."""
