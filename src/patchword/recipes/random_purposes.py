"""Purposes of random numbers, so that draws of one purpose do not depend on draws of another. Never change a value."""

TEXTS_HELD_OUT = 31  # which rows of a text file are kept for validation
DOCUMENTS_HELD_OUT = 13  # which documents of a corpus are kept for validation
