"""FIGURES: plots, and the report of a run as one self-contained HTML page."""

from patchword.reports.run.kinds import write_report

__all__ = ["write_report"]
