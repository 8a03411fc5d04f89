"""The ASGI application of `patchword serve`."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp

from patchword.core.errors import UserError
from patchword.serving.api import embeddings, health, language, predict
from patchword.serving.api.errors import CLIENT_GONE, FAULT, error_response, http_error_response, refusal_response
from patchword.serving.api.guard import ApiAccess, ApiGuard
from patchword.serving.api.oip import routes as oip
from patchword.serving.api.service import Service


def build_app(service: Service, access: ApiAccess) -> ASGIApp:
    """Return the application with its guard."""
    app = Starlette(
        routes=[*health.HEALTH, *health.METRICS, *predict.ROUTES, *language.ROUTES, *embeddings.ROUTES, *oip.ROUTES],
        exception_handlers={
            UserError: _user_error,
            HTTPException: _http_error,
            ClientDisconnect: _no_client,
            Exception: _fault,
        },
    )
    app.router.redirect_slashes = False
    app.state.service = service
    return ApiGuard(app, access, service)


async def _user_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UserError)
    return error_response(error, request.scope)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return http_error_response(error, request.scope)


async def _no_client(request: Request, error: Exception) -> Response:
    """Answer for the metrics only."""
    return Response(status_code=CLIENT_GONE)


async def _fault(request: Request, error: Exception) -> Response:
    """Answer without details; the guard logs them."""
    return refusal_response(FAULT, request.scope)
