"""The page Runs: which runs there are, what a run's folder contains, what is new in it, and how trainings start."""
