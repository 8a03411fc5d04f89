"""ELMo: recipe, task, evaluation and inference."""
