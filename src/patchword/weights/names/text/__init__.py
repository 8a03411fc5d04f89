"""Name tables of the text families."""
