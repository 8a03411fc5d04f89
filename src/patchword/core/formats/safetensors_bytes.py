"""The bytes of a .safetensors file in chunks, to write, hash and compare them without a second copy in memory.

A file consists of the length of its header (8 bytes, little endian), the header (JSON: dtype, shape and offsets of each
tensor, padded with spaces to a multiple of 8 bytes), and the data of the tensors.
"""

import json
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

_PIECE = 4 * 2**20  # bytes per chunk
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def chunks(tensors: Mapping[str, Tensor]) -> Iterator[memoryview]:
    """Yield the bytes of the file, in order."""
    yield memoryview(_head(tensors))
    for name in _order(tensors):
        content = _content(tensors[name])
        for start in range(0, len(content), _PIECE):
            yield content[start : start + _PIECE]


def size_of(tensors: Mapping[str, Tensor]) -> int:
    """Return the size of the file in bytes."""
    return len(_head(tensors)) + sum(tensor.nbytes for tensor in tensors.values())


def _order(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the names, largest element size first, so that every tensor is aligned to its element size."""
    return sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))


def _head(tensors: Mapping[str, Tensor]) -> bytes:
    entries, place = {}, 0
    for name in _order(tensors):
        tensor = tensors[name]
        end = place + tensor.nbytes
        entries[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [place, end]}
        place = end
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def _content(tensor: Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy().data) if flat.numel() else memoryview(b"")
