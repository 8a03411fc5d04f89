"""Varlen attention."""
