"""What the page Positions asks: learned tables of positions, and attention that computes a convolution."""
