"""Translation: recipe, task, decoding, evaluation with BLEU, and alignment by cross-attention."""
