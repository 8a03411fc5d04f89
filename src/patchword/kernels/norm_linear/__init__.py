"""Linear layers on narrow tokens, fused with the LayerNorm before them or with the residual sum after them."""
