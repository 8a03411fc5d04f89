"""Recipes of texts: what is learned from them, how it is scored, and what a model of texts is asked."""
