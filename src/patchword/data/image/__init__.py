"""Labelled images: sources, archives, decoding, splits and batches."""
