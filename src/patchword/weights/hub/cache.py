"""Finds the folder of a model in the cache, without any request."""

from pathlib import Path

from patchword.core.disk_space import format_bytes
from patchword.core.errors import UserError
from patchword.weights.hub.files import CONFIG, is_complete
from patchword.weights.hub.library import hub_library
from patchword.weights.hub.name import HubName
from patchword.weights.hub.pretrained import checkpoint_of


def cached_folder(name: HubName) -> Path | None:
    """Return the folder of a model in the cache; None if it is absent or incomplete."""
    found = hub_library().try_to_load_from_cache(name.id, CONFIG, revision=name.revision)
    folder = Path(found).parent if isinstance(found, str) else None
    return folder if folder is not None and is_complete(folder) else None


def fetched_folder(name: HubName) -> Path:
    """Return the folder of a model in the cache; a model that is not there is an error with the command to fetch it."""
    if (folder := cached_folder(name)) is None:
        known = checkpoint_of(name)
        size = f", about {format_bytes(known.size)} to download" if known else ""
        raise UserError(
            f"{name} is not on this machine",
            expected="a model in the cache of huggingface_hub",
            got=f"none{size}",
            hint=f"fetch it once: `patchword get {name}`, or add --download; in Python: load(..., download=True)",
        )
    return folder
