"""Parts of RepPoints v2: its neck, the pooling of corners, its head and the whole detector."""
