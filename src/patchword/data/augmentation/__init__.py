"""Image augmentation: batched tensor code on any device, with random numbers per sample."""
