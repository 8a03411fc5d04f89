"""MODELS: what a served model takes and answers."""
