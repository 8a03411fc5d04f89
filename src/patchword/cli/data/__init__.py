"""Verbs about data sets."""
