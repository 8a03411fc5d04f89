"""Detection of objects: recipe, task, inference and evaluation."""
