"""Sharpness of a minimum, and the loss landscape around it."""
