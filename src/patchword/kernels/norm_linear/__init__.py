"""Norm linear."""
