"""The inputs of an exported file, one module for each kind that models read."""
