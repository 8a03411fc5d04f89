"""Removes all checkpoints of a run that is finished."""

import re
import shutil
from pathlib import Path

from patchword.core.files import folder_bytes, remove_folder
from patchword.training.checkpoint.checkpoint import CHECKPOINT_NAME

_SNAPSHOTS = "rewind"  # those from which a run goes back before a loss spike
_OURS = re.compile(rf"{CHECKPOINT_NAME}|{_SNAPSHOTS}")
_LEFTOVER = re.compile(rf"\.({_OURS.pattern})(\.\d+)?\.(tmp|old)")


def removable(folder: Path) -> list[Path]:
    """Return what a finished run does not need of its folder `checkpoints`; other files there are not ours."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    return sorted(path for path in found if _OURS.fullmatch(path.name) or _LEFTOVER.fullmatch(path.name))


def remove_checkpoints(folder: Path) -> int:
    """Remove all checkpoints and snapshots, the newest last; return how many bytes that freed.

    Each is renamed first, so that a kill at any moment leaves whole checkpoints and hidden folders only.
    """
    freed = 0
    for path in removable(folder):
        size = folder_bytes(path)
        if path.name.startswith("."):
            shutil.rmtree(path)
        else:
            remove_folder(path, f".{path.name}.old")
        freed += size
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()
    return freed
