"""Inference with a trained text model: predictions, embeddings, filled masks, generated text, tags, answers."""
