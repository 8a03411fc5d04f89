"""Linear cross entropy."""
