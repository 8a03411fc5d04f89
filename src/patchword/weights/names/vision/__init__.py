"""Name tables of the vision families."""
