"""Losses of detectors with queries: each object is matched with one query."""
