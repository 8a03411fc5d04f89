"""Binary masks as run lengths in COCO's format, and polygons filled by COCO's rule."""
