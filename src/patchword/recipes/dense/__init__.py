"""What the recipes of detection and segmentation share."""
