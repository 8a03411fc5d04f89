"""The tasks of fine-tuning on texts: classes, labels, numbers, tags and answer spans, one specification each."""
