"""Digests that tell whether a call continues the one that began: of an input file, and of a model's files."""

import hashlib
from pathlib import Path
from typing import Any

from patchword.core.seal.checking import MEANINGFUL
from patchword.core.seal.digest import Entry
from patchword.weights.local_path import local_path

WHOLE = 2**30  # bytes: a larger file is sampled
_SAMPLES, _SAMPLE = 256, 2**16
# Files of a run that say how it went; no answer depends on them.
_RESULTS = {"data.json", "samples.safetensors", "machine.json", "evaluation.json", "mistakes.json", "finished.json"}
_WEIGHTS = ("*.safetensors", "*.npz", "*.hdf5", "*.bin", "*.model", "config.json", "sentence_bert_config.json")


def file_identity(path: Path) -> dict[str, Any]:
    """Return the size of a file and its sha256; of a file above 1 GiB the time of its last change, and the sha256 of
    256 evenly spaced samples of 64 KiB."""
    status = path.stat()
    if status.st_size <= WHOLE:
        entry = Entry.of(path)
        return {"bytes": entry.bytes, "sha256": entry.sha256}
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for number in range(_SAMPLES):
            file.seek(number * (status.st_size - _SAMPLE) // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE))
    return {"bytes": status.st_size, "changed": status.st_mtime_ns, "sha256 of samples": digest.hexdigest()}


def model_identity(model: str) -> str:
    """Return the digest of the files that decide what a model answers: weights, sizes, tokenizer, recipe."""
    path = next((found for found in (local_path(model), Path("runs") / model) if found.exists()), local_path(model))
    folder = path if path.is_dir() else path.parent
    files = {folder / name for name in MEANINGFUL if name not in _RESULTS and (folder / name).is_file()}
    files |= {found for part in _parts(folder) for kind in _WEIGHTS for found in part.glob(kind) if found.is_file()}
    chosen = files if path.is_dir() else {path, *(file for file in files if file.suffix != path.suffix)}
    digest = hashlib.sha256()
    for file in sorted(chosen):
        if file.name not in _RESULTS:
            digest.update(f"{file.relative_to(folder)} {Entry.of(file).sha256}\n".encode())
    return digest.hexdigest()


def _parts(folder: Path) -> list[Path]:
    """Return the folder, and those inside it that hold parts of a model, as folders of sentence-transformers do."""
    return [folder, *(file.parent for file in sorted(folder.glob("*/config.json")))]
