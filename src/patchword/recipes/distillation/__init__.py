"""Knowledge distillation."""
