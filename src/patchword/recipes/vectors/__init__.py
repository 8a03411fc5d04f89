"""Training of word vectors, and recipes for models over frozen vectors."""
