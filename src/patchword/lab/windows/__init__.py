"""What the page Windows shows: the attention patterns of a model of images or texts, as JSON."""
