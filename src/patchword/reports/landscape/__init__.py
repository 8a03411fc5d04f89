"""Landscape."""
