"""Families of text."""
