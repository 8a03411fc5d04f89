"""The score of a model of the zoo: on the sample that is carried with it, or on the full test set of its run."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchword.api.results import result_of
from patchword.recipes.evaluation import evaluated
from patchword.recipes.run import Run
from patchword.recipes.vectors.analogies import read_analogies, solve, summed
from patchword.recipes.vectors.words import WordVectors

SAMPLE = "sample"
WORD_VECTORS = "word-vectors"
ANALOGIES = "analogies"  # the setting of a sample of word vectors
_COUNTS = ("examples", "pairs")


@dataclass(frozen=True)
class Measured:
    """One score. examples: None if the evaluation does not count them."""

    metric: str
    part: str
    value: float
    examples: int | None


def measured(kind: str, summary: Mapping[str, Any]) -> Measured:
    """Return the main score of the content of evaluation.json."""
    found = result_of(kind, summary)
    count = next((int(summary[name]) for name in _COUNTS if summary.get(name) is not None), None)
    return Measured(found.metric, found.part, round(found.score, 6), count)


def full_score(folder: Path, settings: Sequence[str] = ()) -> Measured:
    """Evaluate the weights of a folder on the test set of its recipe.

    settings: fields that say where the data is on this machine, if not where the run was trained.
    """
    run = Run(folder)
    return measured(run.recipe().kind, evaluated(run, run.recipe().with_settings(settings), "auto").summary())


def sample_score(folder: Path, kind: str, settings: Mapping[str, str]) -> Measured:
    """Evaluate the weights of an entry on its sample, which is copied first: some evaluations cache beside the data."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(folder / SAMPLE, Path(scratch) / SAMPLE)).parent
        located = {field: _located(value, copy) for field, value in settings.items()}
        if kind == WORD_VECTORS:
            return analogy_score(WordVectors.read(folder), Path(located[ANALOGIES]))
        run = Run(folder)
        recipe = run.recipe().with_settings(f"{field}={value}" for field, value in located.items())
        return measured(kind, evaluated(run, recipe, "cpu").summary())


def analogy_score(vectors: WordVectors, analogies: Path) -> Measured:
    """Return the share of correct answers; all words of the questions must have vectors."""
    found = summed(solve(vectors, read_analogies(analogies)))
    return Measured("accuracy", "analogies", round(found.accuracy, 6), found.known)


def _located(value: str, folder: Path) -> str:
    """Return a value with the paths of the sample, which begin with `sample/`, inside a folder."""
    parts = value.split(",")
    return ",".join(str(folder / part) if part.startswith(f"{SAMPLE}/") else part for part in parts)
