"""Reading and writing tensors as .safetensors or .npz. Pickles are refused, because loading one can run code."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from patchword.core.disk_space import write_error
from patchword.core.errors import UserError
from patchword.core.files import whole_file

Tensors = dict[str, Tensor]

ALLOWING = "PATCHWORD_HEADER"  # in the environment
HEADER = int(os.environ.get(ALLOWING) or 2**21)  # bytes: names and shapes of some 15,000 tensors
_UNPACKED = 2**28  # bytes that any .npz may unpack to
# Submodules that earlier versions named otherwise.
_OLDER_NAMES = ((re.compile(r"\b(stages\.\d+)\.entrance\."), r"\1.stem."), (re.compile(r"\bentrance\."), "embedding."))
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib"}


def read_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """Return the tensors of a .safetensors or .npz file, and its metadata, which an .npz does not have."""
    if path.suffix == ".npz" and path.is_file():
        return _read_arrays(path), {}
    refuse_pickle(path)
    try:
        _refuse_many_tensors(path)
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"cannot read {path}", expected="a whole .safetensors file", got=str(error)) from None


def _refuse_many_tensors(path: Path) -> None:
    """Refuse a header of very many tensors by its length; a list of 200,000 empty ones takes a quarter of a minute."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    if length > HEADER:
        hint = f"allow more: {ALLOWING}={length} patchword ..."
        raise UserError(
            f"the header of {path} is too long", expected=f"at most {HEADER:,} bytes", got=f"{length:,}", hint=hint
        )


def rename_older_tensors(tensors: Mapping[str, Tensor]) -> Tensors:
    """Rename the tensors of our files of earlier versions to their current names.

    >>> list(rename_older_tensors({"entrance.words.weight": torch.ones(1), "stages.0.entrance.bias": torch.ones(1)}))
    ['embedding.words.weight', 'stages.0.stem.bias']
    """
    renamed = {}
    for name, tensor in tensors.items():
        for older, current in _OLDER_NAMES:
            name = older.sub(current, name)
        renamed[name] = tensor
    return renamed


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a .safetensors or .npz file, chosen by the suffix; metadata is for .safetensors only."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with whole_file(path) as temporary:
        if path.suffix == ".npz":
            arrays: dict[str, Any] = {name: _array(tensor) for name, tensor in whole.items()}
            with temporary.open("wb") as file:
                np.savez(file, **arrays)
            return
        try:
            save_file(whole, temporary, dict(metadata or {}))
        except SafetensorError as error:  # a full disk, among others
            raise write_error(
                f"cannot write {path}", path, error, sum(tensor.nbytes for tensor in whole.values())
            ) from None
        temporary.chmod(0o644)  # safetensors writes files that only the owner may read


def _read_arrays(path: Path) -> Tensors:
    """Read with NpzFile, which accepts arrays only; numpy.load would also try a pickle."""
    try:
        with path.open("rb") as file, NpzFile(file, allow_pickle=False) as arrays:
            _refuse_bomb(arrays)
            return {name: _tensor(name, arrays[name]) for name in arrays.files}
    except Exception as error:  # a damaged zip or a damaged header fails in many ways
        raise UserError(f"cannot read {path}", expected="a whole .npz file of numbers", got=str(error)) from None


def _refuse_bomb(arrays: NpzFile) -> None:
    """Refuse a zip bomb: a small file that unpacks to more memory than real weights would."""
    entries = arrays.zip.infolist() if arrays.zip else []
    packed, whole = (sum(getattr(entry, size) for entry in entries) for size in ("compress_size", "file_size"))
    if whole > max(_UNPACKED, 100 * packed):
        raise ValueError(f"{packed:,} bytes that grow to {whole:,}, more than 100 times")


def _tensor(name: str, array: object) -> Tensor:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name!r}, which is no array")
    if array.dtype == np.dtype("V2"):  # numpy has no bfloat16; JAX stores its bytes as V2
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _array(tensor: Tensor) -> Any:
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def refuse_pickle(path: Path) -> None:
    """Raise a UserError if the file is a pickle, by its suffix or by its first bytes."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    with path.open("rb") as file:
        start = file.read(9)
    is_zip = start.startswith(b"PK\x03\x04")  # written by torch.save
    is_bare = (
        start.startswith(b"\x80") and start[8:] != b"{"
    )  # a pickle's first byte, which a header's length may equal
    if path.suffix.lower() in PICKLES or is_zip or is_bare:
        convert = f"safetensors.torch.save_file(torch.load({path.name!r}, weights_only=True), 'model.safetensors')"
        raise UserError(
            f"{path} is a pickle, which can run any code when it is opened",
            expected="a .safetensors file",
            hint=f"if you trust it, convert it once: {convert}\n"
            "if the weights are under a key such as 'model', 'state_dict' or 'state_dict_ema', convert only these: "
            "torch.load(...)['model']",
        )
