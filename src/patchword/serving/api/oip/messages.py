"""The messages of the Open Inference Protocol: JSON, and with its binary extension bytes behind it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response

from patchword.core.errors import UserError
from patchword.serving.api.bodies import Fields, parsed
from patchword.serving.api.oip.tensors import Tensor, from_bytes, from_json
from patchword.serving.models.served import MOST_TOP

HEADER = "inference-header-content-length"  # bytes of the JSON in front of the bytes of the tensors
READ = ("BYTES", "UINT8")


class InputParameters(Fields):
    binary_data_size: int | None = Field(None, ge=0)


class InputTensor(Fields):
    """A tensor of a request. data: its values, unless they are bytes behind the JSON."""

    name: str
    datatype: str
    shape: list[Annotated[int, Field(ge=1, le=2**31)]] = Field(max_length=8)
    data: list[Any] | None = None
    parameters: InputParameters = InputParameters()


class OutputParameters(Fields):
    binary_data: bool | None = None


class OutputTensor(Fields):
    name: str
    parameters: OutputParameters = OutputParameters()


class InferParameters(Fields):
    """top: how many classes are answered, as in /predict. binary_data_output: answers as bytes, unless one says no."""

    binary_data_output: bool = False
    top: int = Field(3, ge=1, le=MOST_TOP)


class InferFields(Fields):
    """The JSON of a request. outputs: the tensors to answer; by default those of the metadata, as documented."""

    id: str | None = Field(None, max_length=200)
    inputs: list[InputTensor] = Field(min_length=1, max_length=8)
    outputs: list[OutputTensor] = Field([], max_length=16)
    parameters: InferParameters = InferParameters()

    def is_binary(self, name: str) -> bool:
        """Whether an output is answered as bytes."""
        given = next((one.parameters.binary_data for one in self.outputs if one.name == name), None)
        return self.parameters.binary_data_output if given is None else given


@dataclass(frozen=True)
class InferRequest:
    fields: InferFields
    inputs: dict[str, Tensor]


def read_request(body: bytes, header: str | None) -> InferRequest:
    """Parse a body. header: the bytes of its JSON as text; None: all of it is JSON"""
    size = _size(header, len(body))
    fields, behind = parsed(body[:size], InferFields), memoryview(body)[size:]
    found: dict[str, Tensor] = {}
    for one in fields.inputs:
        if one.name in found:
            raise UserError(f"the tensor {one.name} is given twice")
        if one.datatype not in READ:
            raise UserError(f"the datatype of {one.name}", expected=" or ".join(READ), got=one.datatype)
        length = one.parameters.binary_data_size
        if (length is None) == (one.data is None):
            raise UserError(f"the values of {one.name}", expected='either "data", or "binary_data_size" and its bytes')
        if length is None:
            found[one.name] = from_json(one.name, one.datatype, one.shape, one.data or [])
            continue
        if length > len(behind):
            got = f"{len(behind):,}"
            raise UserError(f"the bytes of {one.name} are incomplete", expected=f"{length:,} behind the JSON", got=got)
        found[one.name] = from_bytes(one.name, one.datatype, one.shape, bytes(behind[:length]))
        behind = behind[length:]
    if len(behind):
        raise UserError("there are bytes that belong to no tensor", expected="binary_data_size", got=f"{len(behind):,}")
    return InferRequest(fields, found)


def write_response(model: str, fields: InferFields, outputs: Sequence[Tensor]) -> Response:
    """Return the response. The request decides which outputs are bytes."""
    heads, behind = [], b""
    for one in outputs:
        if fields.is_binary(one.name):
            raw = one.raw()
            heads.append({**one.head, "parameters": {"binary_data_size": len(raw)}})
            behind += raw
        else:
            heads.append({**one.head, "data": one.data()})
    answer = {"model_name": model, **({"id": fields.id} if fields.id is not None else {}), "outputs": heads}
    head = json.dumps(answer, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    if any("parameters" in one for one in heads):
        return Response(head + behind, headers={HEADER: str(len(head))}, media_type="application/octet-stream")
    return Response(head, media_type="application/json")


def _size(header: str | None, length: int) -> int:
    if header is None:
        return length
    if not header.isdecimal() or not 0 < int(header[:20]) <= length:
        expected = "the bytes of the JSON, at least 1 and at most those of the body"
        raise UserError("the header Inference-Header-Content-Length", expected=expected, got=header[:40])
    return int(header)
