"""Comparisons of models and of runs: tables, spreadsheets and figures."""
