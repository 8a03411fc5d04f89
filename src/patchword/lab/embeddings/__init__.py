"""The page Embeddings: sets of images, texts and words, and their maps by layer."""
