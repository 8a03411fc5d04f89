"""What is fitted on the validation examples of a classifier, saved beside its best weights as calibration.json."""

from dataclasses import dataclass
from pathlib import Path

from patchword.core.errors import UserError
from patchword.core.files import read_json, write_json
from patchword.objectives.metrics.classification import Scores
from patchword.objectives.metrics.quality import Fitted

CALIBRATION = "calibration.json"


@dataclass
class LatestScores:
    """The scores of the latest validation, on which temperature and threshold are fitted when its weights are saved."""

    scores: Scores | None = None

    def save(self, folder: Path) -> None:
        """Fit temperature and threshold, and write them into a run's folder."""
        fitted = Fitted.of(self.scores) if self.scores is not None else None
        if fitted is not None:
            write_json(folder / CALIBRATION, fitted.to_json())


def temperature_of(folder: Path | None, name: str) -> float:
    """Return the temperature of a run; raise an error if none was fitted. folder: of the model, if it has one."""
    fitted = None if folder is None else read_fitted(folder)
    if fitted is None:
        raise UserError(
            f"{name} has no fitted temperature",
            expected=f"the run of a classifier with {CALIBRATION}, which training writes",
            hint="train it again, or leave `calibrated` out",
        )
    return fitted.temperature


def read_fitted(folder: Path) -> Fitted | None:
    """Return what was fitted in training; None for other models, and for runs of versions that did not fit."""
    path = folder / CALIBRATION
    return Fitted.from_json(read_json(path)) if path.is_file() else None
