"""What the routes of the lab share."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from patchword.lab.bundle import Bundle
from patchword.lab.costs import SavedCosts
from patchword.lab.jobs import Jobs
from patchword.lab.lessons.lesson import Lesson
from patchword.lab.models import ListedModel
from patchword.lab.opened import OpenModels
from patchword.lab.run_folders.listing import LabRuns


class Lab:
    """The files of the page, the listed models, those that are open, the counted costs, the lessons and the jobs.

    runs: the folder of the runs, which need not exist
    """

    def __init__(
        self,
        bundle: Bundle,
        models: Mapping[str, ListedModel],
        lessons: Sequence[Lesson] = (),
        runs: Path = Path("runs"),
    ) -> None:
        self.bundle, self.models, self.lessons, self.runs = bundle, models, lessons, runs.absolute()
        self.opened, self.costs = OpenModels(models), SavedCosts()
        self.jobs = Jobs(self.runs)
        self.run_list = LabRuns(self.runs, models, self.jobs)

    def start(self) -> None:
        """Count one model: the first count of a process takes a second longer."""
        self.costs.start("vit-exercise")

    def close(self) -> None:
        self.costs.close()
        self.opened.close()
