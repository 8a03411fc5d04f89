"""FAST PATHS: one folder per kernel, each with a reference that tests and a self-test compare it with."""
