"""Published figures of models, and their comparison with counted and measured ones."""
