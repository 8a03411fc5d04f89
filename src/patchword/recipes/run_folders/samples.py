"""Digests of the samples of a run, by which it notices that other contents lie under the same names.

They are computed once, in the background of the first epoch. Before a run resumes or is evaluated, they are compared.
"""

import shlex
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from rich.console import Console
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.seal.checking import check_file
from patchword.core.tensor_files import read_tensors, write_tensors
from patchword.data.image.splits import Split
from patchword.data.sample_digests import Difference, compare_samples, digest_samples
from patchword.recipes.kinds import kind_of
from patchword.recipes.run_folders.sealing import sealed_files
from patchword.recipes.schema.recipe import Recipe

SAMPLES = "samples.safetensors"
_GRACE = 1.0  # seconds
_SHOWN = 5  # names of samples in an error
_TITLES = {"train": "training", "validation": "validation", "test": "test"}


class SampleRecord:
    """Computes the digests of all samples in a thread, and writes them into the folder of the run."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.error: Exception | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="digests of samples", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self) -> None:
        """Wait until the digests are written."""
        if self._thread.ident is not None:
            self._thread.join()

    def stop(self) -> None:
        """Give up unless it is done soon; the resumed run begins again with it."""
        if self._thread.ident is not None:
            self._thread.join(_GRACE)
        self._stopped.set()
        self.wait()

    def _run(self) -> None:
        try:
            found = self._digests()
            if found:
                with sealed_files(self.folder) as files:
                    write_tensors(files / SAMPLES, found)
        except (UserError, OSError) as error:
            self.error = error

    def _digests(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for part, contents in kind_of(self.recipe).contents(self.recipe, get_args(Split)).items():
            digests = digest_samples(contents, self._stopped.is_set)
            if digests is None:
                return {}
            found[part] = digests
        return found


@contextmanager
def recording(recipe: Recipe, folder: Path, console: Console, is_main: bool) -> Iterator[SampleRecord]:
    """Record the samples of a run while it trains; one that has the record already computes nothing."""
    record = SampleRecord(recipe, folder)
    if is_main and not (folder / SAMPLES).is_file():
        record.start()
    try:
        yield record
    finally:
        record.stop()
    if record.error is not None:
        console.print(
            f"warning: the samples are not recorded: {record.error}", style="yellow", highlight=False, markup=False
        )


def check_trained(recipe: Recipe, folder: Path) -> None:
    """Raise an error if a sample that a resumed run reads has other contents than when it was started."""
    hint = "restore the samples; or start a new run with another --name (model=RUN begins with the weights of this one)"
    for part, difference in _differences(recipe, folder, ("train", "validation")):
        raise _changed(recipe, folder, part, difference, hint)


def check_evaluated(recipe: Recipe, folder: Path) -> None:
    """Raise an error if a sample of the test set, or without one a sample of the run, has other contents than then."""
    parts: tuple[Split, ...] = ("test",) if "test" in _recorded(folder) else ("train", "validation")
    for part, difference in _differences(recipe, folder, parts):
        hint = "restore the samples"
        if part == "test":
            field = "data" if hasattr(recipe, "data") else "test"
            other = shlex.join(["patchword", "evaluate", str(folder), f"{field}={getattr(recipe, field)}"])
            hint += f"; or evaluate those of today as other data, beside the result of the run: {other}"
        raise _changed(recipe, folder, part, difference, hint)


def _recorded(folder: Path) -> dict[str, Tensor]:
    path = folder / SAMPLES
    if not path.is_file():
        return {}
    check_file(path)
    return read_tensors(path)[0]


def _differences(recipe: Recipe, folder: Path, parts: Collection[Split]) -> Iterator[tuple[Split, Difference]]:
    before = _recorded(folder)
    known = [part for part in parts if part in before]
    for part, contents in kind_of(recipe).contents(recipe, known).items() if known else ():
        difference = compare_samples(before[part], contents)
        if difference:
            yield part, difference


def _changed(recipe: Recipe, folder: Path, part: Split, difference: Difference, hint: str) -> UserError:
    names = [*difference.changed, *difference.added]
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    data = getattr(recipe, "data", "") or getattr(recipe, part, "") or getattr(recipe, "train", "")
    return UserError(
        f"the {_TITLES[part]} samples of {data} are not those with which {folder} was trained",
        expected=f"the same contents of {difference.samples:,} samples",
        got=f"{difference}{f': {shown}' if shown else ''}",
        hint=hint,
    )
