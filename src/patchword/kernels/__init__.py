"""FAST PATHS: one file a kernel, each held equal to its plain twin by tests."""
