"""The first layers of image models: convolutions over images, and patch merging, fused with their LayerNorm."""
