"""dry_run and find_lr: what to know before a run starts."""

from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path

from rich.console import Console

from patchword.api.training import named_recipe, refuse_study
from patchword.core.files import whole_file
from patchword.data.progress import Progress, no_progress
from patchword.recipes.model_choice import model_names
from patchword.recipes.schema.recipe import Recipe
from patchword.reports.plots.learning_rate import learning_rate_figure
from patchword.reports.plots.page import embedded
from patchword.training.console import run_console
from patchword.tuning import dry_run as dry_runs
from patchword.tuning import lr_finder
from patchword.tuning.batch_size import with_batch_size
from patchword.weights.hub.download import fetch_all


@dataclass(frozen=True)
class LearningRateRamp(lr_finder.LearningRateRamp):
    """The loss at each learning rate of a ramp, with a suggestion; see `patchword.find_lr`."""

    name: str = ""

    def figure(self) -> bytes:
        """Return a PNG: the loss over the learning rate, with the suggestion marked."""
        title = f"{self.name}: {len(self.rates)} steps with a rising learning rate"
        return learning_rate_figure(self.rates, self.losses, self.smoothed, self.suggestion, title)

    def save_figure(self, file: str | Path) -> None:
        """Write the figure as a PNG."""
        content = self.figure()
        with whole_file(Path(file)) as temporary:
            temporary.write_bytes(content)

    def _repr_html_(self) -> str:
        return f'<p>{escape(str(self))}</p><img src="{embedded("png", self.figure())}" width="720">'


def dry_run(
    recipe: str | PathLike[str],
    *,
    name: str | None = None,
    runs: str | Path = "runs",
    seconds: float = dry_runs.SECONDS,
    quiet: bool = True,
    download: bool = False,
    **fields: object,
) -> dry_runs.DryRun:
    """Return what a run will do, before it starts: data, steps, MACs, memory, time, disk, fields decided automatically.

    Takes the arguments of `train`. It reads the data, builds the model and takes a few steps, none of which is kept;
    nothing is written. Time and memory are estimates for this machine.

    Args:
        recipe, name, runs, download, fields: as in `train`.
        seconds: for which steps are timed.
        quiet: print nothing while the data are read.

    >>> patchword.dry_run("digits-vit", epochs=3).steps
    """
    chosen, default = _chosen(recipe, fields, download)
    return dry_runs.dry_run(chosen, Path(runs) / (name or default), _console(quiet), seconds)


def find_lr(
    recipe: str | PathLike[str],
    *,
    steps: int = lr_finder.STEPS,
    lowest: float = lr_finder.LOWEST,
    highest: float = lr_finder.HIGHEST,
    quiet: bool = True,
    download: bool = False,
    progress: Progress = no_progress,
    **fields: object,
) -> LearningRateRamp:
    """Raise the learning rate exponentially over some steps and suggest one from the loss. Nothing is kept.

    The suggestion is a start for your own comparison: it looks at the first steps only, and a good rate also depends on
    the length of the run, the schedule and the batch size.

    Args:
        recipe, download, fields: as in `train`.
        steps, lowest, highest: of the ramp.
        quiet: print nothing while the data are read.
        progress: called with the number of steps that are done, and of all.

    >>> ramp = patchword.find_lr("digits-vit")
    >>> patchword.train("digits-vit", learning_rate=ramp.suggestion)
    """
    chosen, default = _chosen(recipe, fields, download)
    chosen = with_batch_size(chosen, Path("runs") / default, _console(quiet))
    found = lr_finder.find_lr(chosen, _console(quiet), steps, lowest, highest, progress)
    return LearningRateRamp(**vars(found), name=default)


def _chosen(recipe: str | PathLike[str], fields: dict[str, object], download: bool) -> tuple[Recipe, str]:
    refuse_study(recipe)
    base, default = named_recipe(recipe)
    chosen = base.with_values(fields)
    if download:
        fetch_all(model_names(chosen))
    return chosen, default


def _console(quiet: bool) -> Console:
    return run_console(quiet=quiet, soft_wrap=True)
