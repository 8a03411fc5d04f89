"""Lock."""
