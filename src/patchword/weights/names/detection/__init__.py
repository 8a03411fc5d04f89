"""Name tables of detectors."""
