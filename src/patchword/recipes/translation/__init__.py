"""Translation: recipe, task, evaluation, search."""
