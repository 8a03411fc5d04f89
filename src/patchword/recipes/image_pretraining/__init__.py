"""Self-supervised pretraining on images: recipe, task and evaluation."""
