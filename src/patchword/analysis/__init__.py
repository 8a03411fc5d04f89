"""MEASURES: what a model costs, what it attends to, and how sharp its minimum is."""
