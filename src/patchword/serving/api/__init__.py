"""API: the routes of `patchword serve`."""
