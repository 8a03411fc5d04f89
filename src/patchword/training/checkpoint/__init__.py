"""Checkpoints of a run: written atomically, verified by digests, saved in the background."""
