"""The folder of a run: its weights, its metrics and the command that resumes it; its recipe is read by `Run`."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError, nearest
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.layers.model import Model
from patchword.recipes.run_folders.records import MACHINE, read_record
from patchword.training.parallel.rank import launched_processes
from patchword.training.run_log import read_metrics
from patchword.weights.io.loading import load_detector, load_model, load_segmenter
from patchword.zoo.entries import is_entry


def resume_command(folder: Path) -> str:
    """Return the shell command that resumes the run of a folder, with the same number of processes."""
    place = ["--name", folder.name, "--runs", folder.parent, "--resume"]
    together = ["--processes", processes] if (processes := launched_processes()) > 1 else []
    return shlex.join(str(word) for word in ["patchword", "train", folder / "recipe.yaml", *place, *together])


def _run_names(folder: Path) -> list[str]:
    """Return the names of the runs inside a folder."""
    return sorted(path.parent.name for path in folder.glob("*/recipe.yaml"))


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run."""

    folder: Path

    def __post_init__(self) -> None:
        if not (self.folder / "recipe.yaml").is_file():
            name, above = self.folder.name, self.folder.parent
            runs = _run_names(above) or (_run_names(Path("runs")) if above == Path() else [])
            hint = nearest(name, runs) if runs else "`patchword train RECIPE` makes one"
            raise UserError(f"{self.folder} is not a run", expected="a folder with recipe.yaml", hint=hint)

    def __fspath__(self) -> str:
        return str(self.folder)

    @property
    def is_read_only(self) -> bool:
        """True for a model of the zoo, into whose folder nothing is written."""
        return is_entry(self.folder)

    def check_writable(self) -> None:
        """Raise an error for a model of the zoo."""
        if self.is_read_only:
            own = Path("runs") / self.folder.name
            command = f"mkdir -p {own.parent} && {shlex.join(['cp', '-r', str(self.folder), str(own)])}"
            raise UserError(
                f"{self.folder} belongs to the zoo, in which nothing is saved",
                expected="a run of your own",
                hint=f"copy it to the folder `runs`: {command}",
            )

    def metrics(self) -> list[dict[str, Any]]:
        return read_metrics(self.folder / "metrics.jsonl")

    def machine(self) -> dict[str, Any]:
        return read_record(self.folder, MACHINE)

    def model(self, **overrides: Any) -> Model:
        self._check_weights()
        return load_model(self.folder, **overrides)

    def detector(self, **overrides: Any) -> Detector:
        self._check_weights()
        return load_detector(self.folder, **overrides)

    def segmenter(self, **overrides: Any) -> Segmenter:
        self._check_weights()
        return load_segmenter(self.folder, **overrides)

    def _check_weights(self) -> None:
        if not (self.folder / "model.safetensors").is_file():
            hint = f"let its first epoch end: {resume_command(self.folder)}"
            raise UserError(f"{self.folder} has no weights yet", hint=hint)


def refuse_several_runs(folder: Path) -> None:
    """Raise an error for a folder of a study or of several seeds; it names the runs inside."""
    inside = [file.parent for file in sorted(folder.glob("*/recipe.yaml"))]
    if (folder / "recipe.yaml").is_file() or not inside:
        return
    named = ", ".join(map(str, inside[:5])) + (", ..." if len(inside) > 5 else "")
    results = next((folder / name for name in ("results.md", "results.csv") if (folder / name).is_file()), None)
    hint = f"the results of all of them are in {results}" if results else ""
    raise UserError(f"{folder} holds {len(inside)} runs", expected=f"one of them: {named}", hint=hint)
