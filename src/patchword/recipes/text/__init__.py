"""Fine-tuning on texts: tasks, training, evaluation and inference."""
