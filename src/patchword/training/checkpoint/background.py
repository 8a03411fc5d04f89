"""Saving beside training: the tensors are copied to the processor's memory, and a thread writes the copy.

At most one save is under way; the next one waits for it. A save counts when its folder has its name, as before, so a
kill loses nothing that was there. What goes wrong in the thread is raised at the next look, and a run's end waits.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from torch import Tensor

from patchword.core.memory import free_memory
from patchword.training.checkpoint.checkpoint import Checkpoints, Cost


class BackgroundCheckpoints(Checkpoints):
    """Where the memory is too small for a second copy, saves are written at once, as `Checkpoints` does.

    tell: hears once what a save costs, when the first one is done
    """

    def __init__(self, folder: Path, keep: int = 2, tell: Callable[[Cost], None] = lambda cost: None) -> None:
        super().__init__(folder, keep)
        self.tell = tell
        self._copy: dict[str, Tensor] = {}
        self._thread: Thread | None = None
        self._failure: BaseException | None = None
        self._waited = 0.0

    def save(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any], spared: str = "") -> None:
        began = time.monotonic()
        self.wait()
        self.check_disk_space(self.folder / name, tensors)
        if not self._copied(tensors):
            self._write(name, tensors, state, spared, [])
            self.check()
            return
        copies = _copies(tensors)
        self._waited = time.monotonic() - began
        work = (name, dict(self._copy), dict(state), spared, copies)
        self._thread = Thread(target=self._write, args=work, name="saving")
        self._thread.start()  # not a daemon: a process that ends waits for it, too

    def check(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def _write(
        self,
        name: str,
        tensors: Mapping[str, Tensor],
        state: Mapping[str, Any],
        spared: str,
        copies: list[torch.cuda.Event],
    ) -> None:
        try:
            for copy in copies:
                copy.synchronize()
            known = self.cost is not None
            super().save(name, tensors, state, spared)
            if self.cost is not None and self._thread is not None:
                self.cost = replace(self.cost, waited=self._waited)
            if self.cost is not None and not known:
                self.tell(self.cost)
        except BaseException as failure:
            self._failure = failure

    @torch.no_grad()
    def _copied(self, tensors: Mapping[str, Tensor]) -> bool:
        """Copies into the memory of the last save where it fits; False where there is too little."""
        missing = [name for name, tensor in tensors.items() if not _alike(self._copy.get(name), tensor)]
        if sum(tensors[name].nbytes for name in missing) > free_memory() // 2:
            return False
        self._copy = {name: self._copy[name] for name in tensors if name not in missing} | {
            name: torch.empty_like(tensors[name], device="cpu", pin_memory=tensors[name].is_cuda) for name in missing
        }
        for name, tensor in tensors.items():
            self._copy[name].copy_(tensor, non_blocking=True)
        return True


def _alike(mine: Tensor | None, other: Tensor) -> bool:
    return mine is not None and mine.shape == other.shape and mine.dtype == other.dtype


def _copies(tensors: Mapping[str, Tensor]) -> list[torch.cuda.Event]:
    """Copies from a GPU are under way when asked for; work that comes later there cannot overtake them."""
    if any(tensor.device.type == "mps" for tensor in tensors.values()):
        torch.mps.synchronize()
    devices = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
    return [torch.cuda.current_stream(device).record_event() for device in devices]
