"""The loss landscape that `patchword landscape` saved in the folder of a run."""

from dataclasses import dataclass
from typing import cast

import torch

from patchword.analysis.sharpness.landscape import Kind, LossLandscape
from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.inspection.sharpness import weights_digest
from patchword.recipes.run import Run

FILE, OLDER = "landscape.json", "surface.json"  # runs of earlier versions have the older name


@dataclass(frozen=True)
class SavedLandscape:
    """A saved landscape. digest: of the weights that it belongs to. The other fields are those of the figures."""

    kind: Kind
    sample: str
    digest: str
    loss_name: str
    has_accuracy: bool
    found: LossLandscape

    def belongs_to(self, run: Run) -> bool:
        """True if the landscape is that of the current weights of the run."""
        return self.digest == weights_digest(run)


def read_landscape(run: Run) -> SavedLandscape | None:
    """Return the saved landscape, also of other weights; None if there is none."""
    path = next((run.folder / name for name in (FILE, OLDER) if (run.folder / name).is_file()), None)
    if path is None:
        return None
    try:
        kept = read_json(path)
        places, losses, accuracies = (
            torch.tensor(kept[name], dtype=torch.float64) for name in ("places", "loss", "accuracy")
        )
        if losses.shape != accuracies.shape or set(losses.shape) != {len(places)}:
            raise ValueError("the points do not form a grid")
        if not len(places) or not places.isfinite().all():
            raise ValueError("the grid has no points, or some at no place")
        names = cast(Kind, str(kept["directions"])), str(kept["sample"]), str(kept["digest"]), str(kept["loss_name"])
        return SavedLandscape(*names, bool(kept["has_accuracy"]), LossLandscape(places, losses, accuracies))
    except (ValueError, KeyError, TypeError, RuntimeError, OverflowError):
        raise UserError(f"cannot read {path}", hint="remove it, and run `patchword landscape` again") from None
