"""The path of a model that is named: in the cache of the hub, in the zoo, or where the path itself leads."""

from pathlib import Path

from patchword.weights.hub.cache import fetched_folder
from patchword.weights.hub.name import HubName, is_hub_name
from patchword.zoo.entries import entry_folder, is_zoo_name


def is_model_name(source: str | Path) -> bool:
    """Return True for a name of the hub or of the zoo, which is never a path."""
    return is_hub_name(source) or is_zoo_name(source)


def local_path(source: str | Path) -> Path:
    """Return the folder of a name of the hub or of the zoo; any other source is a path, which may not exist.

    Nothing is fetched: a model of the hub that is not in the cache is an error that names the command to fetch it.
    """
    if is_zoo_name(source):
        return entry_folder(str(source))
    return fetched_folder(HubName.parse(str(source))) if is_hub_name(source) else Path(source)
