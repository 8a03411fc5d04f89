"""Results of runs: what is fitted on validation examples, and evaluation on other data."""
