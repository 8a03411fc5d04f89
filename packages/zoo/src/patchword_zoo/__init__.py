"""Small trained models for patchword: one folder per model, found as zoo:NAME."""
