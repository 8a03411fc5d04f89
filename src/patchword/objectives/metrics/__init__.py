"""Metrics of classification, tagging, question answering and translation."""
