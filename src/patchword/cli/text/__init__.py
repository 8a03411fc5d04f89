"""Verbs about text."""
