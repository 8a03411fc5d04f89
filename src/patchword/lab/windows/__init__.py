"""What the page Windows shows: the attention patterns of a model of images, as JSON."""
