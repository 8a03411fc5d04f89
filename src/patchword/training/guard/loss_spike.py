"""Rewinds the run to before a loss spike, and skips the batches of the spike (as PaLM was trained, 2022, 5.1)."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any

from torch import Tensor

from patchword.core.errors import UserError
from patchword.training.checkpoint.checkpoint import Checkpoints, Log
from patchword.training.guard.report import StepIndex
from patchword.training.monitor import LossSpike as LossSpike
from patchword.training.state import State

WIDTH = 8  # steps whose mean loss is tested, and that are skipped if it is a spike
HISTORY = 128  # steps whose median loss it is compared with
SNAPSHOT_EVERY = 200  # steps between two snapshots
MAX_SPIKES = 10  # spikes per run; more of them are not caused by the batches


class LossSpikeRewind:
    """Detects loss spikes and keeps snapshots to rewind to.

    Which steps are skipped depends on the losses alone: snapshots are taken at fixed steps, not at fixed times, and the
    steps between them are repeated bit-equal. So a run that was killed in between ends with the same weights. The steps
    of a spike belong to one epoch; what the end of an epoch has written is never undone.

    factor: a spike is a mean loss of more than `factor` times the median.
    """

    def __init__(self, factor: float, folder: Path, log: Log) -> None:
        self.factor, self.folder, self.log = factor, folder, log

    def wants_snapshot(self, state: State) -> bool:
        return state.batch % SNAPSHOT_EVERY == 0

    def record(self, state: State, index: StepIndex, loss: float) -> None:
        """Add the loss of a step to the state; raise LossSpike if the last steps are a spike."""
        state.recent_losses = [*state.recent_losses, loss][-HISTORY:]
        losses = state.recent_losses
        if len(losses) >= 4 * WIDTH and fmean(losses[-WIDTH:]) > self.factor * median(losses) > 0:
            raise LossSpike(max(index.step - index.batch, index.step - WIDTH + 1), index.step)

    def save_snapshot(self, state: State, tensors: Mapping[str, Tensor]) -> None:
        """Save a snapshot in a folder of its own; the last two are kept, since a spike can begin before the last."""
        Checkpoints(self.folder / _folder_name(state.step)).save("epoch-0", tensors, state.to_dict())
        for older in sorted(self.folder.iterdir())[:-2]:
            shutil.rmtree(older)

    def snapshots_to_write(self) -> int:
        """Two are kept, and a third is written before the oldest is removed."""
        return max(1, 3 - len(list(self.folder.glob("*"))))

    def rewind(self, spike: LossSpike, state: State) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the newest snapshot before the spike; its state lists the steps of the spike as skipped."""
        skipped = [*state.skipped_steps, *range(spike.first, spike.last + 1)]
        if len(skipped) > MAX_SPIKES * WIDTH:
            raise UserError(
                f"the loss rose above {self.factor:g} times its median again, at step {spike.last + 1}",
                got=f"{len(state.skipped_steps)} steps skipped so far",
                hint="lower the learning rate (learning_rate), or clip gradients (clip_norm)",
            )
        for folder in sorted(self.folder.glob("*"), reverse=True):
            if folder.name > _folder_name(spike.first):
                shutil.rmtree(folder)  # was saved during the spike
            elif (found := Checkpoints(folder).newest(self.log)) is not None:
                tensors, values = found
                self.log(
                    f"loss spike: the loss is above {self.factor:g} times its median. The run is rewound to step "
                    f"{values['step'] + 1} and skips steps {spike.first + 1} to {spike.last + 1}"
                )
                return tensors, {**State.from_dict(values).to_dict(), "skipped_steps": skipped}
        raise UserError(f"{self.folder} has no snapshot from before step {spike.first + 1} to rewind to")


def _folder_name(step: int) -> str:
    return f"{step:09d}"
