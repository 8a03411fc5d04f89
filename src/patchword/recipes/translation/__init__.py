"""Recipes of translation."""
