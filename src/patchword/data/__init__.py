"""EXAMPLES: images, texts and their labels, from files to batches on the device."""
