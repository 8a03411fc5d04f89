"""Runs of any kinds side by side: `patchword runs compare`."""
