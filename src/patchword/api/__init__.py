"""PYTHON: training, evaluation and benchmarks as functions; the verbs of the command line call the same code."""
