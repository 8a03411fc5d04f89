"""Families of text models."""
