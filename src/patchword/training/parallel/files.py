"""The files of a run of several processes: the first one writes them, and they are those of one process.

So a run can go on with another number of processes, or with weights that are dealt out or not.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from patchword.training.checkpoint.checkpoint import Checkpoints, Say
from patchword.training.loop import State
from patchword.training.parallel.process_group import DataParallel, SingleProcess
from patchword.training.parallel.sharded import spread, whole


class SharedCheckpoints(Checkpoints):
    """Of several processes; only the first one touches the disk, so that its folder need not be a shared one."""

    def __init__(
        self, inner: Checkpoints, group: DataParallel, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> None:
        super().__init__(inner.folder, inner.keep)
        self.inner, self.group, self.model, self.optimizer = inner, group, model, optimizer

    def check(self) -> None:
        self.inner.check()

    def wait(self) -> None:
        self.inner.wait()

    def save(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any], spared: str = "") -> None:
        """Weights that are dealt out are brought to the main memory of the first process, one by one."""
        found = {}
        for key, tensor in tensors.items():
            complete = whole(tensor)
            if self.group.is_main:
                found[key] = complete.detach().cpu() if complete is not tensor else tensor
        if self.group.is_main:
            self.inner.save(name, found, state, spared)

    def newest(self, say: Say) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        found = self.inner.newest(say) if self.group.is_main else None
        tensors, state = self.group.told(found and found[0], found and found[1])
        return None if state is None else (spread(tensors, self.model, self.optimizer), state)


class Silent:
    """A journal of a process that others speak for."""

    def start(self, state: State, epochs: int, steps_per_epoch: int) -> None: ...
    def step(self, state: State, loss: Callable[[], float], accuracy: Callable[[], float]) -> None: ...
    def epoch(self, record: dict[str, float], state: State) -> None: ...
    def stop(self) -> None: ...


def checkpoints_of(
    group: SingleProcess, inner: Checkpoints, model: nn.Module, optimizer: torch.optim.Optimizer
) -> Checkpoints:
    return SharedCheckpoints(inner, group, model, optimizer) if isinstance(group, DataParallel) else inner
