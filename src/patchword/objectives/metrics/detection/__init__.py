"""COCO's average precision of detected boxes and masks."""
