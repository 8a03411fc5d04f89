"""Image classification: recipe, task, evaluation and inference."""
