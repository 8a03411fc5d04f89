"""What the page Translate asks of a translator."""
