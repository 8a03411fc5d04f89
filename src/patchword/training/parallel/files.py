"""The files of a run on several processes. The main process writes them in the format of one process.

So a run can be resumed with another number of processes, with or without sharded weights.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from patchword.training.checkpoint.checkpoint import Checkpoints, Log
from patchword.training.loop import State
from patchword.training.parallel.gradient_sync import full
from patchword.training.parallel.process_group import DataParallel, SingleProcess
from patchword.training.parallel.sharded import shard_like


class SharedCheckpoints(Checkpoints):
    """Checkpoints of several processes. Only the main process uses the disk, so the folder need not be shared."""

    def __init__(
        self, inner: Checkpoints, group: DataParallel, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> None:
        super().__init__(inner.folder, inner.keep)
        self.inner, self.group, self.model, self.optimizer = inner, group, model, optimizer

    def check(self) -> None:
        self.inner.check()

    def wait(self) -> None:
        self.inner.wait()

    def save(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any], also_keep: str = "") -> None:
        """Gather sharded weights in the CPU memory of the main process, one at a time, and save them."""
        found = {}
        for key, tensor in tensors.items():
            complete = full(tensor)
            if self.group.is_main:
                found[key] = complete.detach().cpu() if complete is not tensor else tensor
        if self.group.is_main:
            self.inner.save(name, found, state, also_keep)

    def newest(self, log: Log) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        found = self.inner.newest(log) if self.group.is_main else None
        tensors, state = self.group.broadcast(found and found[0], found and found[1])
        return None if state is None else (shard_like(tensors, self.model, self.optimizer), state)


class SilentLog:
    """The log of all processes but the main one: it writes nothing."""

    def start(self, state: State, epochs: int, steps_per_epoch: int) -> None: ...
    def step(self, state: State, loss: Callable[[], float], accuracy: Callable[[], float]) -> None: ...
    def epoch(self, record: dict[str, float], state: State) -> None: ...
    def stop(self) -> None: ...


def checkpoints_of(
    group: SingleProcess, inner: Checkpoints, model: nn.Module, optimizer: torch.optim.Optimizer
) -> Checkpoints:
    """Return the checkpoints of the group: one process uses `inner` directly."""
    return SharedCheckpoints(inner, group, model, optimizer) if isinstance(group, DataParallel) else inner
