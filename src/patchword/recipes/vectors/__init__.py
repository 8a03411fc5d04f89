"""Word vectors, and recipes over frozen vectors."""
