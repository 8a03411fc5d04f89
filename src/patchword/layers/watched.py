"""Another name of patchword.kernels.common.hooks."""

from patchword.kernels.common.hooks import has_hooks

__all__ = ["has_hooks"]
