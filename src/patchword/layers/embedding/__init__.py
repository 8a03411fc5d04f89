"""Leading tokens, character embeddings and position encodings."""
