"""Drawn detections: boxes, masks and labels on images, truth beside prediction."""
