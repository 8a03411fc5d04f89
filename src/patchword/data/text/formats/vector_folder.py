"""Word vectors as a folder: vector-words.txt with one word per line, and model.safetensors with one tensor, `vectors`.

The tensor may be bfloat16: a sixth of the size of the text format.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from patchword.core.errors import UserError
from patchword.core.files import write_text
from patchword.core.tensor_files import read_tensors, write_tensors

WORDS, WEIGHTS, TENSOR = "vector-words.txt", "model.safetensors", "vectors"


def is_vector_folder(path: Path) -> bool:
    """Return True for a folder that `write_vector_folder` wrote."""
    return (path / WORDS).is_file() and (path / WEIGHTS).is_file()


def write_vector_folder(folder: Path, words: Sequence[str], vectors: np.ndarray, dtype: torch.dtype) -> None:
    """Write the words and their vectors, converted to a dtype."""
    write_tensors(folder / WEIGHTS, {TENSOR: torch.from_numpy(vectors).to(dtype)})
    write_text(folder / WORDS, "".join(f"{word}\n" for word in words))


def read_vector_folder(folder: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the words and their vectors, (words, width) float32."""
    words = (folder / WORDS).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    tensors, _ = read_tensors(folder / WEIGHTS)
    if TENSOR not in tensors or tensors[TENSOR].shape[:1] != (len(words),):
        got = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
        raise UserError(f"{folder} has no word vectors", expected=f"{TENSOR} ({len(words)}, width)", got=got)
    return tuple(words), tensors[TENSOR].float().numpy()
