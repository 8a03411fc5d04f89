"""Verbs about models: lists, costs, comparisons, export."""
