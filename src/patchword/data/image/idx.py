"""The idx format of MNIST and its relatives: a magic number, the sizes, then the bytes."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchword.core.errors import UserError

_UNSIGNED_BYTES = 0x08
LARGEST = 2**33  # maximum unpacked size in bytes: a small gzip file can expand without limit


def read_idx(path: Path) -> Tensor:
    """Read an idx file, plain or gzipped, as a uint8 tensor of the shape in its header."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}", expected="a whole gzip file", got=str(error)) from None
    if len(data) > LARGEST:
        raise UserError(f"{path} is too large to unpack", expected=f"at most {LARGEST:,} bytes")
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _UNSIGNED_BYTES:
        raise UserError(f"{path} is not an idx file", expected="bytes 00 00 08 at its start", got=data[:3].hex(" "))
    start = 4 + 4 * data[3]
    sizes = [int.from_bytes(data[at : at + 4], "big") for at in range(4, start, 4)]
    if len(data) != start + math.prod(sizes):
        raise UserError(
            f"{path} is truncated" if len(data) < start + math.prod(sizes) else f"{path} is too long",
            expected=f"{start + math.prod(sizes):,} bytes for sizes {' x '.join(map(str, sizes))}",
            got=f"{len(data):,} bytes",
            hint="download the file again",
        )
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=start).reshape(sizes).copy())
