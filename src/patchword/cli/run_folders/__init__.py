"""The verbs of `patchword runs`."""
