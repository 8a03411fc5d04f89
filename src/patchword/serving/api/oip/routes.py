"""The routes of the Open Inference Protocol: health, metadata, and inference."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword import __version__
from patchword.core.errors import UserError
from patchword.serving.api.bodies import check_count
from patchword.serving.api.oip.messages import HEADER, InferRequest, read_request, write_response
from patchword.serving.api.oip.signature import Signature, signature_of
from patchword.serving.api.replies import json_reply
from patchword.serving.api.service import Service
from patchword.serving.api.trace import tokenised
from patchword.serving.engine.request import Item


async def server_metadata(request: Request) -> Response:
    """GET /v2: name, version and extensions of the server."""
    return json_reply({"name": "patchword", "version": __version__, "extensions": ["binary_tensor_data"]})


async def server_live(request: Request) -> Response:
    """GET /v2/health/live: 200 while the process answers."""
    return json_reply({"live": True})


async def server_ready(request: Request) -> Response:
    """GET /v2/health/ready: 503 while the server drains, or if a model has no thread."""
    service: Service = request.app.state.service
    return json_reply({"ready": service.is_ready}, 200 if service.is_ready else 503)


async def model_metadata(request: Request) -> Response:
    """GET /v2/models/NAME: the tensors that a model reads and answers."""
    service: Service = request.app.state.service
    model = service.named(request.path_params["name"]).model
    signature = signature_of(model)
    inputs, outputs = ([one.to_json() for one in specs] for specs in (signature.inputs, signature.outputs))
    return json_reply(
        {"name": model.name, "versions": [], "platform": "patchword", "inputs": inputs, "outputs": outputs}
    )


async def model_ready(request: Request) -> Response:
    """GET /v2/models/NAME/ready: 503 while the server drains, or if the model has no thread."""
    service: Service = request.app.state.service
    served = service.named(request.path_params["name"])
    is_ready = served.engine.is_alive and not service.is_draining
    return json_reply({"name": served.model.name, "ready": is_ready}, 200 if is_ready else 503)


async def infer(request: Request) -> Response:
    """POST /v2/models/NAME/infer: tensors to tensors."""
    service: Service = request.app.state.service
    served = service.find(request.path_params["name"])
    signature, body = signature_of(served.model), await request.body()
    header = request.headers.get(HEADER)
    most = service.limits.texts if served.model.reads == "texts" else service.limits.images
    asked, wanted, items = await tokenised(request.scope, _asked, signature, body, header, most, served.model.reads)
    found = await service.answer(request, served, items)
    outputs = signature.answers(wanted, items, found)
    return write_response(served.model.name, asked.fields, outputs)


def _asked(
    signature: Signature, body: bytes, header: str | None, most: int, unit: str
) -> tuple[InferRequest, list[str], list[Item]]:
    """Return the request, the names of its outputs, and its inputs for the engine."""
    asked = read_request(body, header)
    wanted = [one.name for one in asked.fields.outputs] or list(signature.default)
    known = [one.name for one in signature.outputs]
    if unknown := next((name for name in wanted if name not in known), None):
        raise UserError(f"there is no output {unknown[:80]!r}", expected=" or ".join(known))
    if len(set(wanted)) < len(wanted):
        raise UserError("an output is named twice", expected="each output once", got=", ".join(wanted)[:200])
    for one in asked.inputs.values():
        check_count(len(one.values) if one.values.ndim else 0, most, unit)
    return asked, wanted, signature.items(asked.inputs, wanted, asked.fields.parameters.top)


ROUTES = [
    Route("/v2", server_metadata, methods=["GET"]),
    Route("/v2/health/live", server_live, methods=["GET"]),
    Route("/v2/health/ready", server_ready, methods=["GET"]),
    Route("/v2/models/{name}", model_metadata, methods=["GET"]),
    Route("/v2/models/{name}/ready", model_ready, methods=["GET"]),
    Route("/v2/models/{name}/infer", infer, methods=["POST"]),
]
