"""Heads of semantic segmentation, and the model that has a backbone, a neck and a head."""
