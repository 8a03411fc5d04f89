"""Verbs about training and evaluation."""
