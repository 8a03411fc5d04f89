"""PICTURES: plots, and the report of a run as one page that needs nothing else."""

from patchword.reports.run.kinds import write_report

__all__ = ["write_report"]
