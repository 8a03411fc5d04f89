"""Finds the folder of a model in the cache, without any request."""

from pathlib import Path

from patchword.core.disk_space import format_bytes
from patchword.core.errors import UserError
from patchword.weights.hub.files import CONFIG, is_complete
from patchword.weights.hub.library import hub_library
from patchword.weights.hub.name import HubName, is_hub_name
from patchword.weights.hub.pretrained import checkpoint_of


def cached_folder(name: HubName) -> Path | None:
    """Return the folder of a model in the cache; None if it is absent or incomplete."""
    found = hub_library().try_to_load_from_cache(name.id, CONFIG, revision=name.revision)
    folder = Path(found).parent if isinstance(found, str) else None
    return folder if folder is not None and is_complete(folder) else None


def local_path(source: str | Path) -> Path:
    """Return the path of a source: the folder in the cache for a name of the hub, else the path as it is given.

    Nothing is fetched: a model that is not in the cache is an error that names the command which fetches it.
    """
    if not is_hub_name(source):
        return Path(source)
    name = HubName.parse(str(source))
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
