"""Checkpoints: safetensors and JSON in a folder that appears whole or not at all.

A checkpoint is written under a hidden name, every file flushed to the disk, its manifest of digests last, and then
renamed. The reader takes the newest whose manifest holds, and says why it passes one over.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.files import flush, make_folder

Say = Callable[[str], None]
_TENSORS, _STATE, _MANIFEST = "tensors.safetensors", "state.json", "manifest.json"


class Checkpoints:
    """The checkpoints of a run; the last `keep` are kept."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def save(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Writes one; names sort in the order of the run."""
        make_folder(self.folder)
        final = self.folder / name
        if final.exists() and not _fault(final):
            return  # a place in a run has one outcome, so this is the same checkpoint
        hidden = self.folder / f".{final.name}.{os.getpid()}.tmp"
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir()
        try:
            save_file({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, hidden / _TENSORS)
            (hidden / _STATE).write_text(json.dumps(dict(state)))
            manifest = {file: _digest(hidden / file) for file in (_TENSORS, _STATE)}
            (hidden / _MANIFEST).write_text(json.dumps(manifest))
            for file in (_TENSORS, _STATE, _MANIFEST):
                flush(hidden / file)
            flush(hidden)
            shutil.rmtree(final, ignore_errors=True)  # a damaged one of the same place
            hidden.rename(final)
            flush(self.folder)
        except (OSError, SafetensorError) as error:
            raise UserError(f"cannot write the checkpoint {final}", got=_reason(error)) from None
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        self._retire(final)

    def newest(self, say: Say) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest checkpoint that is whole."""
        for folder in reversed(self._all()):
            if fault := _fault(folder):
                say(f"{folder.name} is passed over: {fault}")
                continue
            state: dict[str, Any] = json.loads((folder / _STATE).read_text())
            return load_file(folder / _TENSORS), state
        return None

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("epoch-*")) if self.folder.is_dir() else []

    def _retire(self, newest: Path) -> None:
        older = [folder for folder in self._all() if folder.name < newest.name]
        for folder in older[: max(0, len(older) - (self.keep - 1))]:
            doomed = folder.with_name(f".{folder.name}.old")  # first renamed, so that no half of one is ever read
            shutil.rmtree(doomed, ignore_errors=True)
            folder.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)
        for litter in self.folder.glob(".epoch-*"):  # left by a kill
            shutil.rmtree(litter, ignore_errors=True)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fault(folder: Path) -> str:
    """What is wrong with a checkpoint, or nothing."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        for name in (_TENSORS, _STATE):
            if manifest[name] != _digest(folder / name):
                return f"{name} has changed since it was written"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its manifest cannot be used ({error})"
    return ""


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    states = optimizer.state_dict()["state"]
    return {f"optimizer.{index}.{key}": value for index, state in states.items() for key, value in state.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    states: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            states.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
