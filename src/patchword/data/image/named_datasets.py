"""Named data sets. They are searched in the user's data folder, then among Debian's packages.

A verified download happens only when the user asks for it.
"""

import hashlib
import http.client
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from patchword.core.errors import UserError, nearest
from patchword.core.files import whole_file
from patchword.data.image.archives import SUFFIXES, refuse_packed
from patchword.data.image.listing import (
    archive_source,
    folder_source,
    has_loose_images,
    manifest_source,
    unlabelled_source,
)
from patchword.data.image.sources import DigitsSource, IdxSource, ImageSource, ListedSource
from patchword.data.shards.manifest import is_sharded
from patchword.data.shards.shard_source import shard_source

_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@dataclass(frozen=True)
class NamedDataset:
    """A data set in idx files: its classes, its URL with the digests of its files, its Debian package."""

    about: str
    classes: tuple[str, ...]
    address: str
    digests: Mapping[str, str]  # file -> sha256 of the gzipped file
    package: str = ""
    package_folder: str = ""


def _digests(*values: str) -> dict[str, str]:
    return {f"{name}.gz": value for name, value in zip(_FILES, values, strict=True)}


DATASETS: dict[str, NamedDataset] = {
    "fashion-mnist": NamedDataset(
        "70,000 grey 28 x 28 images of clothes, 10 classes (Xiao et al., 2017)",
        ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        _digests(
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
        "dataset-fashion-mnist",
        "/usr/share/datasets/fashion-mnist",
    ),
    "mnist": NamedDataset(
        "70,000 grey 28 x 28 handwritten digits (LeCun et al., 1998)",
        tuple(str(digit) for digit in range(10)),
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        _digests(
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "kmnist": NamedDataset(
        "70,000 grey 28 x 28 cursive Japanese characters, 10 classes (Clanuwat et al., 2018)",
        ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist",
        _digests(
            "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
            "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
            "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
            "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
        ),
    ),
}


def data_folder() -> Path:
    """Return $PATCHWORD_DATA, or `patchword` in the user's data folder."""
    if given := os.environ.get("PATCHWORD_DATA"):
        return Path(given)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "patchword"


def find_dataset(name: str) -> tuple[Path, str] | None:
    """Return the folder of a named data set and its origin; None if it is not on this machine."""
    known = DATASETS[name]
    for folder, origin in ((data_folder() / name, "data folder"), (Path(known.package_folder or "-"), known.package)):
        if all((folder / f"{name}.gz").is_file() or (folder / name).is_file() for name in _FILES):
            return folder, f"{origin} ({folder})"
    return None


def open_source(where: str) -> ImageSource:
    """Open a named data set, a folder of classes, a .zip or .tar of one, a folder of shards, or a manifest."""
    if where == "digits":
        return DigitsSource()
    if where in DATASETS:
        found = find_dataset(where)
        if found is None:
            raise UserError(f"{where} is not on this machine", hint=how_to_get(where))
        return IdxSource(where, found[0], DATASETS[where].classes, found[1])
    path = Path(where)
    if path.is_dir():
        return shard_source(path) if is_sharded(path) else folder_source(path)
    if path.is_file() and path.suffix.lower() in (".csv", ".jsonl"):
        return manifest_source(path)
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return archive_source(path)
    refuse_packed(path)
    hint = nearest(where, [*DATASETS, "digits"])
    raise UserError(
        f"there is no data set {where!r}", expected="a name, a folder, a .zip, .tar, .csv or .jsonl file", hint=hint
    )


def open_unlabelled(where: str) -> ImageSource:
    """Open a data set whose labels are not used: also a folder of images without class folders, or with one class."""
    path = Path(where)
    if where not in (*DATASETS, "digits") and path.is_dir() and not is_sharded(path) and has_loose_images(path):
        return unlabelled_source(path)
    source = open_source(where)
    return replace(source, min_classes=1) if isinstance(source, ListedSource) else source


def how_to_get(name: str) -> str:
    known = DATASETS[name]
    ways = [f"put its four idx files into {data_folder() / name}"]
    ways += [f"apt-get install {known.package}"] if known.package else []
    ways += [f"patchword data get {name}   (downloads {known.address})"]
    return "get it in one of these ways:\n" + "\n".join(f"  {number}. {way}" for number, way in enumerate(ways, 1))


def fetch(name: str, log: Callable[[str], None]) -> Path:
    """Install Debian's package of a named data set if permitted, else download and verify it."""
    if name not in DATASETS:
        raise UserError(f"no data set is called {name!r}", hint=nearest(name, DATASETS))
    if (found := find_dataset(name)) is not None:
        log(f"{name} is already available: {found[1]}")
        return found[0]
    if _install(DATASETS[name].package, log) and (found := find_dataset(name)) is not None:
        return found[0]
    return _download(name, log)


def _install(package: str, log: Callable[[str], None]) -> bool:
    if not package or os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    log(f"installing Debian's {package}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", package]):
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
    return done.returncode == 0


def _download(name: str, log: Callable[[str], None]) -> Path:
    known, folder = DATASETS[name], data_folder() / name
    for file, digest in known.digests.items():
        address = f"{known.address}/{file}"
        log(f"downloading {address}")
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise UserError(f"cannot download {address}", got=str(error), hint=how_to_get(name)) from None
        if (got := hashlib.sha256(data).hexdigest()) != digest:
            raise UserError(f"{address} has another digest", expected=f"sha256 {digest}", got=got)
        with whole_file(folder / file) as temporary:
            temporary.write_bytes(data)
    return folder
