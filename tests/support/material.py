"""Shared helpers of the tests of data, training and verbs: small files, a tiny recipe, a machine without data sets."""

import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from safetensors.torch import load_file

from patchword.data.image.named_datasets import DATASETS
from patchword.recipes import find_recipe
from patchword.recipes.run_folders.verification import reseal
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.schema.recipe import Recipe

# Small enough for a second an epoch; random in every way a recipe can be, so that a restart has something to get wrong.
TINY_MODEL = ("model.patch=4", "model.depth=2", "model.width=16", "model.heads=2", "model.hidden=32")
RANDOM = (
    "model.dropout=0.1",
    "model.attention_dropout=0.1",
    "model.drop_path=0.2",
    "augmentation.flip=0.3",
    "augmentation.shift=1",
    "augmentation.random_erasing=0.3",
)
# an average and patience besides, which a restart must carry on
WHOLE = (
    "epochs=2",
    "batch_size=128",
    "ema_decay=0.9",
    "patience=3",
    "label_smoothing=0.1",
    "learning_rate=5e-3",
    "device=cpu",
)
# For tests of run folders that were put together by hand, or are of an earlier version.
UNSEALED = pytest.mark.filterwarnings("ignore::patchword.core.errors.UnsealedWarning")
SCORE = 0.5  # of the runs of copied_run
QUICK = (*TINY_MODEL, "epochs=1", "batch_size=128", "device=cpu")


def tiny_recipe(*settings: str) -> Recipe:
    """Return a recipe: digits, a tiny model, all augmentation, weight averaging and early stopping."""
    return find_recipe("digits-vit").with_settings([*TINY_MODEL, *RANDOM, *WHOLE, *settings])


def silent() -> Console:
    return Console(file=io.StringIO(), soft_wrap=True)


def idx_bytes(array: np.ndarray | Sequence[int]) -> bytes:
    """Write the idx format from its specification, independently of the code under test."""
    values = np.asarray(array, np.uint8)
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes()


def write_idx_set(folder: Path, labels: Sequence[int] = tuple(range(10)) * 3, side: int = 28) -> None:
    """Write the four files of an idx data set, with equal train and test splits."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (len(labels), side, side))
    for stem in ("train", "t10k"):
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(idx_bytes(pixels))
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))


def write_picture(path: Path, seed: int = 0, size: tuple[int, int] = (8, 8), mode: str = "L") -> Path:
    """Write an image of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = len(Image.new(mode, (1, 1)).getbands())
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], channels), dtype=np.uint8)
    Image.fromarray(values[..., 0] if channels == 1 else values).save(path)
    return path


def write_classes(folder: Path, classes: Sequence[str] = ("cat", "dog"), count: int = 10) -> Path:
    """Write an image folder with one subfolder per class."""
    for number, name in enumerate(classes):
        for picture in range(count):
            write_picture(folder / name / f"{picture}.png", seed=1000 * number + picture)
    return folder


def without_sets(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Simulate a machine with an empty data folder, no Debian package, no apt-get and no network."""
    monkeypatch.setenv("PATCHWORD_DATA", str(folder))
    for name, known in DATASETS.items():
        gone = {**vars(known), "package_folder": str(folder / "no such package")}
        monkeypatch.setitem(DATASETS, name, type(known)(**gone))
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("urllib.request.urlopen", _no_network)


def _no_network(address: str, **_: object) -> None:
    raise OSError(f"a test asked for {address}")


def settings(*fields: str) -> list[str]:
    """Return the arguments --set field=value ..."""
    return [word for field in fields for word in ("--set", field)]


def everything_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*")) if folder.exists() else []


def differing(ours: Path, theirs: Path) -> list[str]:
    """Return the names of tensors that are not bitwise equal in two files, or are only in one."""
    mine, other = load_file(ours), load_file(theirs)
    names = mine.keys() | other.keys()
    same = {name for name in mine.keys() & other.keys() if _bits(mine[name]) == _bits(other[name])}
    return sorted(names - same)


def _bits(tensor: torch.Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    return tensor.dtype, tensor.shape, tensor.numpy().tobytes()


def copied_run(trained: Path, folder: Path, evaluated: bool = True, **fields: object) -> Path:
    """Copy a trained run; evaluated: as a finished run of an earlier version is. fields: of its recipe, changed"""
    shutil.copytree(trained, folder)
    if evaluated:
        result = {"loss": 1.5, "accuracy": SCORE, "examples": 359, "classes": [], "confusion": []}
        (folder / "evaluation.json").write_text(json.dumps(result))
    if fields:
        recipe = read_recipe(folder / "recipe.yaml").with_values(fields)
        (folder / "recipe.yaml").write_text(recipe.to_yaml())
    return sealed(folder)


def sealed(folder: Path) -> Path:
    """Seal a run as it is, after a test has written files into it."""
    reseal(folder)
    return folder
