"""Feed-forward blocks: GELU, a bias with GELU, a linear layer with GELU, and whole MLPs fused with their norm."""
