"""MEASURES: what a model costs and what it looks at."""
