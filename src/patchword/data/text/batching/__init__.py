"""Batches of texts: padding and packing, masking, translation pairs, question windows, prefetching."""
