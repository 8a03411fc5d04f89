"""Inference with a trained text model."""
