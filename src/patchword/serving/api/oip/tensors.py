"""Tensors of the Open Inference Protocol: as lists in JSON, or as bytes behind it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.serving.api.replies import NonFiniteAnswerError

_ANSWERED = {"FP32": np.dtype("<f4"), "BOOL": np.dtype("?")}
_LENGTH = 4  # bytes of the length of each element of BYTES, little-endian


@dataclass(frozen=True)
class TensorSpec:
    """A tensor in the metadata of a model. shape: -1 is any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@dataclass(frozen=True)
class Tensor:
    """values: of the dtype of the datatype; those of BYTES are bytes objects."""

    name: str
    datatype: str
    values: NDArray[Any]

    @property
    def head(self) -> dict[str, Any]:
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.values.shape)}

    def data(self) -> list[Any]:
        """Return the values as a flat list for JSON; BYTES are texts."""
        flat: list[Any] = self.values.ravel().tolist()
        return [one.decode() for one in flat] if self.datatype == "BYTES" else flat

    def raw(self) -> bytes:
        """Return the values as bytes, each element of BYTES after its length."""
        if self.datatype != "BYTES":
            return self.values.tobytes()
        return b"".join(len(one).to_bytes(_LENGTH, "little") + one for one in self.values.ravel().tolist())


def tensor_of(name: str, datatype: str, rows: Sequence[Any]) -> Tensor:
    """Return a tensor of an answer. rows: numbers, texts, or lists of the same length of them"""
    if datatype == "BYTES":
        shape = (len(rows), *([len(rows[0])] if rows and not isinstance(rows[0], str) else []))
        texts = rows if len(shape) == 1 else [text for row in rows for text in row]
        return Tensor(name, datatype, _objects([text.encode() for text in texts], shape))
    values = np.asarray(rows, _ANSWERED[datatype])
    if datatype == "FP32" and not np.isfinite(values).all():
        raise NonFiniteAnswerError(f"the tensor {name} has numbers that are not finite")
    return Tensor(name, datatype, values)


def from_json(name: str, datatype: str, shape: Sequence[int], data: list[Any]) -> Tensor:
    """Return a tensor of a request, whose values are in JSON: flat in row-major order, or nested as the shape is."""
    flat = _flat(name, data, shape)
    _check_count(name, shape, len(flat))
    if datatype == "BYTES":
        if not all(isinstance(one, str) for one in flat):
            raise UserError(f"the tensor {name} has another type", expected="texts, as its datatype is BYTES")
        return Tensor(name, datatype, _objects([one.encode() for one in flat], shape))
    if datatype == "UINT8" and all(type(one) is int and 0 <= one <= 255 for one in flat):
        return Tensor(name, datatype, np.frombuffer(bytes(flat), np.uint8).reshape(shape))
    raise UserError(f"the tensor {name} has another type", expected="integers from 0 to 255, as its datatype is UINT8")


def from_bytes(name: str, datatype: str, shape: Sequence[int], data: bytes) -> Tensor:
    """Return a tensor of a request, whose values are bytes behind the JSON."""
    if datatype != "BYTES":
        _check_count(name, shape, len(data))
        return Tensor(name, datatype, np.frombuffer(data, np.uint8).reshape(shape))
    found, place = [], 0
    while place < len(data):
        begin = place + _LENGTH
        place = begin + int.from_bytes(data[place:begin], "little")
        found.append(data[begin:place])
    if place != len(data):
        hint = "each element has its length in front, as 4 bytes, little-endian"
        raise UserError(f"the bytes of the tensor {name} end inside an element", hint=hint)
    _check_count(name, shape, len(found))
    return Tensor(name, datatype, _objects(found, shape))


def _check_count(name: str, shape: Sequence[int], count: int) -> None:
    if math.prod(shape) != count:
        expected = f"{math.prod(shape):,}, the product of its shape"
        raise UserError(f"the number of values of the tensor {name}", expected=expected, got=f"{count:,}")


def _flat(name: str, data: list[Any], shape: Sequence[int]) -> list[Any]:
    if not any(isinstance(one, list) for one in data):
        return data
    if not shape or len(data) != shape[0] or not all(isinstance(one, list) for one in data):
        expected = "lists that are nested as its shape is, or one flat list"
        raise UserError(f"the values of the tensor {name}", expected=expected)
    return [value for one in data for value in _nested(name, one, shape[1:])]


def _nested(name: str, data: list[Any], shape: Sequence[int]) -> list[Any]:
    found = _flat(name, data, shape)
    _check_count(name, shape, len(found))
    return found


def _objects(found: Sequence[bytes], shape: Sequence[int]) -> NDArray[Any]:
    values = np.empty(len(found), object)
    values[:] = found
    return values.reshape(shape)
