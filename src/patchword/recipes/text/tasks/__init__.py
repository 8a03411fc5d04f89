"""The tasks of fine-tuning on texts."""
