"""Readers of annotation files, one file per format, and the writer of COCO JSON."""
