"""Loading and saving of models."""
