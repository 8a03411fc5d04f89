"""Training: one loop for all tasks. An objective computes the loss, a step changes the weights."""
