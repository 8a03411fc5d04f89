"""BATCHES: a bounded queue per model, and the thread that computes its batches. It knows neither HTTP nor models."""
