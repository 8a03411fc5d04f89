"""The loss of semantic segmentation."""
