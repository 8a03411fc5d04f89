"""Fetches a model of the hub into the cache and verifies every file."""

import hashlib
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from patchword import __version__
from patchword.core.disk_space import check_disk_space, format_bytes
from patchword.core.errors import UserError
from patchword.weights.hub.cache import cached_folder
from patchword.weights.hub.failures import hub_failures
from patchword.weights.hub.files import CONFIG, choose_files, is_complete
from patchword.weights.hub.library import cache_folder, hub_library
from patchword.weights.hub.name import HubName, is_hub_name

_CHUNK = 2**20
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class RemoteFile:
    """A file of a repository. sha256: of files in LFS. git: the hash of the git object, of all other files."""

    name: str
    size: int
    sha256: str = ""
    git: str = ""


@dataclass(frozen=True)
class Download:
    """What is fetched of a model. commit: of the revision at the time of the request."""

    name: HubName
    commit: str
    files: tuple[RemoteFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def print_size(download: Download) -> None:
    """Print what is fetched and its size to stderr."""
    print(f"fetching {download.name}: {format_bytes(download.size)}", file=sys.stderr)


def fetch(name: HubName, announce: Callable[[Download], None] = print_size, update: bool = False) -> Path:
    """Return the folder of a model in the cache, and fetch what is missing.

    announce: called with the files and their sizes before the download starts; not called if all of them are there
    update: ask the hub for a newer commit of the revision even if the model is in the cache
    """
    folder = cached_folder(name)
    if folder is not None and not update:
        return folder
    download = plan_download(name)
    announce(download)
    return run_download(download)


def fetch_all(names: Iterable[str]) -> None:
    """Fetch the names of the hub among these names."""
    for name in filter(is_hub_name, names):
        fetch(HubName.parse(name))


def plan_download(name: HubName) -> Download:
    """Ask the hub for the files of a model."""
    with hub_failures(name):
        found = _api().model_info(name.id, revision=name.revision, files_metadata=True)
    if not _COMMIT.fullmatch(found.sha or ""):
        raise UserError(f"{name} cannot be verified", expected="the commit of its revision", got=repr(found.sha))
    listed = {file.rfilename: file for file in found.siblings or ()}
    return Download(name, found.sha, tuple(_described(listed[file], name) for file in choose_files(listed, name)))


def run_download(download: Download) -> Path:
    """Fetch the files of a model, verify each of them, and return their folder.

    A broken connection continues within a file; after a stop, files that were finished are not fetched again.
    """
    name, api = download.name, _api()
    check_disk_space(f"cannot store {name}", cache_folder(), download.size - _present(download))
    folders = set()
    for file in download.files:
        # The last file is fetched by the name of the revision, so that the cache knows the commit of this name.
        revision = name.revision if file.name == CONFIG else download.commit
        with hub_failures(name, file.name):
            path = Path(api.hf_hub_download(name.id, file.name, revision=revision))
        _verify(path, file, name)
        folders.add(path.parents[file.name.count("/")])
    folder = folders.pop()
    if folders or not is_complete(folder):
        raise UserError(
            f"{name} changed during its download, or is incomplete",
            expected=f"commit {download.commit}",
            got=f"{len(folders) + 1} commits" if folders else "shards that are not on the hub",
            hint=f"run again: `patchword get {name}`",
        )
    return folder


def _api() -> Any:
    return hub_library().HfApi(library_name="patchword", library_version=__version__)


def _described(file: Any, name: HubName) -> RemoteFile:
    sha256 = file.lfs.sha256 if file.lfs else ""
    if file.size is None or not (sha256 or file.blob_id):
        got = f"a list without size or digest of {file.rfilename}"
        raise UserError(f"{name} cannot be verified", expected="size and digest of each file", got=got)
    return RemoteFile(file.rfilename, file.size, sha256, file.blob_id or "")


def _present(download: Download) -> int:
    """Return the number of bytes that need not be fetched again."""
    is_cached = partial(hub_library().try_to_load_from_cache, download.name.id, revision=download.commit)
    return sum(file.size for file in download.files if isinstance(is_cached(file.name), str))


def _verify(path: Path, file: RemoteFile, name: HubName) -> None:
    """Compare size and digest with those of the hub; remove the file if they differ."""
    size = path.stat().st_size
    digest, expected = _digest(path, size, file)
    if size == file.size and digest == expected:
        return
    path.resolve().unlink(missing_ok=True)  # the content; the path is a link to it
    path.unlink(missing_ok=True)
    raise UserError(
        f"{file.name} of {name} is damaged and was removed",
        expected=f"{format_bytes(file.size)} with digest {expected[:16]}...",
        got=f"{format_bytes(size)} with digest {digest[:16]}...",
        hint=f"run again: `patchword get {name}`; if it happens again, a proxy or a mirror may change files",
    )


def _digest(path: Path, size: int, file: RemoteFile) -> tuple[str, str]:
    """Return the digest of a file and that of the hub: SHA-256 for files in LFS, git's SHA-1 for others."""
    found = hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest(), file.sha256 or file.git
