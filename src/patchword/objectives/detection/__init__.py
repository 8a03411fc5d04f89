"""Objectives of detectors: which anchor or proposal learns which object, and the losses."""
