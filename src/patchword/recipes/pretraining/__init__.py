"""Pretraining of language models on raw text."""
