"""The cost rules of the parts of models, by what they do; `rules.py` has the table."""
