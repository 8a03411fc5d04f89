"""The optional library huggingface_hub: imported on first use."""

from pathlib import Path
from types import ModuleType

from patchword.core.errors import UserError


def hub_library() -> ModuleType:
    """Import huggingface_hub; raise an error that names the extra if it is not installed."""
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
    except ImportError:
        raise UserError(
            "models by name need the package huggingface_hub", hint="pip install 'patchword[hub]'"
        ) from None
    return huggingface_hub


def cache_folder() -> Path:
    """Return the folder of the cache, which HF_HOME or HF_HUB_CACHE changes."""
    return Path(hub_library().constants.HF_HUB_CACHE)
