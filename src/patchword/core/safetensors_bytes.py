"""The bytes of a .safetensors file, piece by piece: to be written, digested and compared without a second copy.

A file is the length of its header (8 bytes, little endian), the header (JSON: dtype, shape and place of each tensor,
filled up with spaces to 8 bytes), and the tensors one behind the other.
"""

import json
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

_PIECE = 4 * 2**20  # bytes; small enough to wait for, large enough to be worth a call
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


def pieces(tensors: Mapping[str, Tensor]) -> Iterator[memoryview]:
    """The whole file, in order."""
    yield memoryview(_head(tensors))
    for name in _order(tensors):
        content = _content(tensors[name])
        for start in range(0, len(content), _PIECE):
            yield content[start : start + _PIECE]


def size_of(tensors: Mapping[str, Tensor]) -> int:
    """The bytes of the whole file."""
    return len(_head(tensors)) + sum(tensor.nbytes for tensor in tensors.values())


def _order(tensors: Mapping[str, Tensor]) -> list[str]:
    """wide numbers first, so that every tensor begins at a multiple of its numbers' size"""
    return sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))


def _head(tensors: Mapping[str, Tensor]) -> bytes:
    told, place = {}, 0
    for name in _order(tensors):
        tensor = tensors[name]
        end = place + tensor.nbytes
        told[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [place, end]}
        place = end
    header = json.dumps(told, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def _content(tensor: Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy().data) if flat.numel() else memoryview(b"")
