"""Distillation in recipes: the teacher fields, and tasks whose objective also has losses on a teacher."""
