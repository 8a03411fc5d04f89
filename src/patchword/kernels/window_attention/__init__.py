"""Window attention."""
