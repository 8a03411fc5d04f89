"""Run: a finished or running run as an object."""

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from patchword.api.results import EvaluationResult, result_of
from patchword.api.tables import Table, format_cell, html_fields
from patchword.core.errors import UserError
from patchword.recipes import run as recipes_run
from patchword.recipes.run_folder import refuse_several_runs
from patchword.recipes.run_folders.records import EVALUATION, read_record
from patchword.weights.local_path import is_model_name, local_path

if TYPE_CHECKING:
    from patchword.pipelines import Pipeline


class Run(recipes_run.Run):
    """The folder of a run: its recipe, metrics, best weights, test result and report.

    `Run("runs/mine")` opens one; `Run("mine")` finds it inside the folder `runs`; `Run("zoo:NAME")` opens a trained
    model that comes along.

    >>> run = patchword.train("digits-vit", epochs=3)
    >>> run.metrics()[-1]["validation_accuracy"]
    >>> run.evaluation().score
    >>> model = run.model()
    """

    def __init__(self, folder: str | Path) -> None:
        object.__setattr__(self, "folder", find_folder(Path(folder)))
        self.__post_init__()

    def metrics(self) -> Table:
        """Return the metrics, one row per epoch."""
        return Table(super().metrics())

    def evaluation(self) -> EvaluationResult:
        """Return the saved test result; `patchword.evaluate` computes it again."""
        path = self.folder / "evaluation.json"
        if not path.is_file():
            raise UserError(
                f"{self.folder} is not evaluated yet", hint=f"call patchword.evaluate({str(self.folder)!r})"
            )
        return result_of(self.recipe().kind, read_record(self.folder, EVALUATION))

    @property
    def report(self) -> Path:
        """The path of the report, an HTML page."""
        return self.folder / "report.html"

    def pipeline(self, device: str = "auto") -> "Pipeline":
        """Return a pipeline with the best weights, which predicts from raw images or texts."""
        from patchword.pipelines import pipeline

        return pipeline(self.folder, device=device)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        fields = {"recipe kind": self.recipe().kind, "model": self.recipe().model.name}
        if (self.folder / "evaluation.json").is_file():
            found = self.evaluation()
            fields[f"{found.metric} ({found.part})"] = format_cell(found.score)
        last = "".join(Table(self.metrics()[-1:])._repr_html_() for _ in self.metrics()[-1:])
        return f"<p><b>{escape(str(self.folder))}</b></p>{html_fields(fields)}{last}"


def find_folder(path: Path) -> Path:
    """Return the folder of a run, which is given by its path, by its name inside `runs`, or by zoo:NAME."""
    if is_model_name(path):
        return local_path(path)
    below = Path("runs") / path
    for folder in (path, below):
        refuse_several_runs(folder)
    return below if not (path / "recipe.yaml").is_file() and (below / "recipe.yaml").is_file() else path
