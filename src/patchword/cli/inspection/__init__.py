"""Verbs that inspect a trained model."""
