"""The answers of the routes: JSON, or arrays with JSON beside them."""

import json
from collections.abc import Mapping
from typing import Any

from safetensors.torch import save
from starlette.responses import Response
from torch import Tensor

from patchword.core.errors import UserError

JSON = "application/json"
ABOUT = "about"


def encoded(value: Any) -> bytes:
    """Return JSON without spaces. A non-finite number is an error: JSON has none."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        hint = "the training of this model has diverged, or its files are damaged"
        raise UserError("the answer has numbers that are not finite", hint=hint) from None


def json_reply(value: Any) -> Response:
    return Response(encoded(value), media_type=JSON)


def arrays_reply(about: Any, arrays: Mapping[str, Tensor]) -> Response:
    """Return arrays as a safetensors file, half the size of JSON. about: JSON in its metadata, under "about"."""
    tensors = {name: array.detach().float().cpu().contiguous() for name, array in arrays.items()}
    content = save(tensors, {ABOUT: encoded(about).decode()})
    return Response(content, media_type="application/octet-stream")
