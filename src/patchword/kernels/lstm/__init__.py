"""Lstm."""
