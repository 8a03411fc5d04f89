"""Going back before a spike of the loss, and past the batches that it came with (as PaLM was trained, 2022, 5.1)."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

from torch import Tensor

from patchword.core.errors import UserError
from patchword.training.checkpoint.checkpoint import Checkpoints
from patchword.training.guard.report import Place
from patchword.training.state import State

WIDTH = 8  # steps whose mean loss is looked at, and that are left out where it is a spike
MEMORY = 128  # steps whose median it is held against
EVERY = 200  # steps from one place to come back to to the next
TIMES = 10  # in a run; then it is not the batches


class Spike(BaseException):
    """The loss of these steps, first and last included, is far above those before."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(f"steps {first} to {last}")
        self.first, self.last = first, last


class LossSpikeRewind:
    """factor: how many times their median the mean loss of the last steps may be.

    What is left out follows from the losses alone: the places to come back to are at fixed steps, not at times, and
    everything in between is repeated as it was. So a run that was killed in the middle of it ends with the same bits.
    A spike's steps are of one epoch; nothing that the end of an epoch has written is taken back.
    """

    def __init__(self, factor: float, folder: Path, say: Callable[[str], None]) -> None:
        self.factor, self.folder, self.say = factor, folder, say

    def wants_snapshot(self, state: State) -> bool:
        return state.batch % EVERY == 0

    def note(self, state: State, place: Place, loss: float) -> None:
        state.losses = [*state.losses, loss][-MEMORY:]
        if len(state.losses) >= 4 * WIDTH and fmean(state.losses[-WIDTH:]) > self.factor * median(state.losses) > 0:
            raise Spike(max(place.step - place.batch, place.step - WIDTH + 1), place.step)

    def keep(self, state: State, tensors: Mapping[str, Tensor]) -> None:
        """A place to come back to, in a folder of its own; two are kept, since a spike may begin before the last."""
        Checkpoints(self.folder / _number(state.step)).save("epoch-0", tensors, asdict(state))
        for older in sorted(self.folder.iterdir())[:-2]:
            shutil.rmtree(older)

    def before(self, spike: Spike, state: State) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The newest place before the spike, with the spike among the steps to leave out."""
        skipped = [*state.skipped, *range(spike.first, spike.last + 1)]
        if len(skipped) > TIMES * WIDTH:
            raise UserError(
                f"the loss rose to {self.factor:g} times its median again, at step {spike.last + 1}",
                got=f"{len(state.skipped)} steps left out so far",
                hint="lower learning_rate, or set clip_norm",
            )
        for folder in sorted(self.folder.glob("*"), reverse=True):
            if folder.name > _number(spike.first):
                shutil.rmtree(folder)  # comes from a way that is not taken any more
            elif (found := Checkpoints(folder).newest(self.say)) is not None:
                tensors, values = found
                self.say(
                    f"the loss is above {self.factor:g} times its median: back to step {values['step'] + 1}, and then "
                    f"without steps {spike.first + 1} to {spike.last + 1}"
                )
                return tensors, {**values, "skipped": skipped}
        raise UserError(f"there is no place to go back to before step {spike.first + 1} in {self.folder}")


def _number(step: int) -> str:
    return f"{step:09d}"
