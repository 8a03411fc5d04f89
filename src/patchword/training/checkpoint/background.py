"""Saves in the background: the tensors are copied to CPU memory, and a thread writes the copy.

At most one save runs at a time; the next one waits for it. A checkpoint counts once its folder has its final name, so a
kill loses none of the earlier ones. An error of the thread is raised at the next `check`; the end of a run waits for
the last save.
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
from patchword.training.checkpoint.checkpoint import Checkpoints, SaveCost
from patchword.training.checkpoint.origin import Origin


class BackgroundCheckpoints(Checkpoints):
    """Checkpoints that a thread writes. If memory is too small for a copy, training waits, as with `Checkpoints`.

    on_first_save: called with the cost of the first save when it is done
    """

    def __init__(
        self,
        folder: Path,
        keep: int = 2,
        on_first_save: Callable[[SaveCost], None] = lambda cost: None,
        origin: Origin | None = None,
    ) -> None:
        super().__init__(folder, keep, origin)
        self.on_first_save = on_first_save
        self._copy: dict[str, Tensor] = {}
        self._thread: Thread | None = None
        self._failure: BaseException | None = None
        self._waited = 0.0

    def save(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any], also_keep: str = "") -> None:
        began = time.monotonic()
        self.wait()
        self.check_disk_space(self.folder / name, tensors)
        if not self._copy_to_cpu(tensors):
            self._write(name, tensors, state, also_keep, [])
            self.check()
            return
        copies = _copy_events(tensors)
        self._waited = time.monotonic() - began
        work = (name, dict(self._copy), dict(state), also_keep, copies)
        self._thread = Thread(target=self._write, args=work, name="saving")
        self._thread.start()  # not a daemon, so that the process waits for it at its end

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
        also_keep: str,
        copies: list[torch.cuda.Event],
    ) -> None:
        try:
            for copy in copies:
                copy.synchronize()
            known = self.cost is not None
            super().save(name, tensors, state, also_keep)
            if self.cost is not None and self._thread is not None:
                self.cost = replace(self.cost, waited=self._waited)
            if self.cost is not None and not known:
                self.on_first_save(self.cost)
        except BaseException as failure:
            self._failure = failure

    @torch.no_grad()
    def _copy_to_cpu(self, tensors: Mapping[str, Tensor]) -> bool:
        """Copy the tensors into the buffers of the last save; return False if memory is too small."""
        missing = [name for name, tensor in tensors.items() if not _same_shape(self._copy.get(name), tensor)]
        if sum(tensors[name].nbytes for name in missing) > free_memory() // 2:
            return False
        self._copy = {name: self._copy[name] for name in tensors if name not in missing} | {
            name: torch.empty_like(tensors[name], device="cpu", pin_memory=tensors[name].is_cuda) for name in missing
        }
        for name, tensor in tensors.items():
            self._copy[name].copy_(tensor, non_blocking=True)
        return True


def _same_shape(mine: Tensor | None, other: Tensor) -> bool:
    return mine is not None and mine.shape == other.shape and mine.dtype == other.dtype


def _copy_events(tensors: Mapping[str, Tensor]) -> list[torch.cuda.Event]:
    """Return events that mark the end of the copies from each GPU; later work on its stream runs after them."""
    if any(tensor.device.type == "mps" for tensor in tensors.values()):
        torch.mps.synchronize()
    devices = {tensor.device for tensor in tensors.values() if tensor.is_cuda}
    return [torch.cuda.current_stream(device).record_event() for device in devices]
