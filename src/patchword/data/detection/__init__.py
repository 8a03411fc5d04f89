"""Data of object detection and instance segmentation: annotation files, checks, transforms, scenes, batches."""
