"""Recipes that learn from raw text."""
