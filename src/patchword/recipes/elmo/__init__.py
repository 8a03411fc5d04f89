"""ELMo: its recipe, its run and its score."""
