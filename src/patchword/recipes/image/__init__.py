"""Recipes of images."""
