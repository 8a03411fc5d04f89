"""What an orchestrator asks: is the process alive, does it accept requests, what has it done."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from patchword.serving.api.metrics import CONTENT_TYPE, metrics_text
from patchword.serving.api.service import Service


async def live(request: Request) -> Response:
    """GET /health/live: 200 while the process answers."""
    return PlainTextResponse("live\n")


async def ready(request: Request) -> Response:
    """GET /health/ready: 503 while the server drains, or if a model has no thread."""
    service: Service = request.app.state.service
    if service.is_ready:
        return PlainTextResponse("ready\n")
    return PlainTextResponse("draining\n" if service.is_draining else "a model does not run\n", 503)


async def metrics(request: Request) -> Response:
    """GET /metrics: for Prometheus."""
    service: Service = request.app.state.service
    return Response(metrics_text(service.metrics, service.served, service.is_ready), media_type=CONTENT_TYPE)


HEALTH = [Route("/health/live", live, methods=["GET"]), Route("/health/ready", ready, methods=["GET"])]
METRICS = [Route("/metrics", metrics, methods=["GET"])]
