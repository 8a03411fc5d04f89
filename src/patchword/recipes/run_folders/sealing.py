"""The seal of a run: written with its files, from before the first step to its end."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchword.core.seal.changing import changing
from patchword.core.seal.checking import MEANINGFUL
from patchword.core.seal.digest import Entry
from patchword.core.seal.manifest import Seal, new_run_id, read_seal, text_digest
from patchword.recipes.schema.recipe import CHANGEABLE, Recipe
from patchword.training.checkpoint.origin import Origin
from patchword.training.run_log import METRICS

WEIGHTS = ("model.safetensors", "model.npz")


@contextmanager
def sealed_files(folder: Path) -> Iterator[Path]:
    """Yield the folder to write files of a run into; they get into the run together with their seal.

    A run of an earlier version has no seal: its files are written into it directly.
    """
    if read_seal(folder) is None:
        yield folder
    else:
        with changing(folder) as staging:
            yield staging


@contextmanager
def begun(folder: Path, recipe: Recipe, data: dict[str, Any], resume: bool) -> Iterator[Path]:
    """Yield the folder for the first files of a run. A new run gets an id; one that is resumed keeps its own.

    data: what the samples are, as in data.json. A run of an earlier version is sealed as it is when it is resumed.
    """

    def update(seal: Seal) -> Seal:
        if resume and seal.run:
            return seal
        present = {name: Entry.of(folder / name) for name in MEANINGFUL if (folder / name).is_file()}
        recipe_digest = text_digest(recipe.model_dump(mode="json", exclude=set(CHANGEABLE)))
        return Seal(
            new_run_id(), recipe_digest, text_digest(data), present, resealed=resume and _has_checkpoints(folder)
        )

    with changing(folder, update=update) as staging:
        yield staging


def sealed_weights(folder: Path) -> dict[str, Entry]:
    """Return the entries of the weights of a run; empty for a run of an earlier version."""
    seal = read_seal(folder) or Seal()
    return {name: seal.files[name] for name in WEIGHTS if name in seal.files}


@contextmanager
def results_of(folder: Path, weights: Mapping[str, Entry]) -> Iterator[Path]:
    """Yield the folder for results. weights: those they belong to; after others were saved, nothing is written."""
    if read_seal(folder) is None:
        yield folder
    else:
        with changing(folder, unless_changed=weights) as staging:
            yield staging


@contextmanager
def finishing(folder: Path) -> Iterator[Path]:
    """Yield the folder for the mark of a finished run, whose log grows no more."""
    if read_seal(folder) is None:
        yield folder
        return

    def update(seal: Seal) -> Seal:
        log = {METRICS: Entry.of(folder / METRICS)} if (folder / METRICS).is_file() else {}
        return seal.changed(log, [])

    with changing(folder, update=update) as staging:
        yield staging


def origin_of_run(folder: Path) -> Origin | None:
    """Return what the checkpoints of a run say of it; None for a folder that is not begun."""
    seal = read_seal(folder)
    return Origin(seal.run, seal.recipe, seal.data, seal.resealed) if seal and seal.run else None


@contextmanager
def first_checkpoint(folder: Path) -> Iterator[Path]:
    """Yield the folder for what is known once a checkpoint is complete; from now on the run cannot begin again."""
    if read_seal(folder) is None:
        yield folder
    else:
        with changing(folder, update=lambda seal: replace(seal, has_checkpoint=True)) as staging:
            yield staging


def _has_checkpoints(folder: Path) -> bool:
    return any((folder / "checkpoints").glob("*"))
