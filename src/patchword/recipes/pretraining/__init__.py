"""Pretraining of language models on raw text: recipes, tasks, examples and evaluation."""
