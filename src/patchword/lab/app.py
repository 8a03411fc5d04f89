"""The application of the lab: the page and the routes that it asks, behind the guard."""

import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from patchword.core.errors import UserError
from patchword.lab.bundle import Bundle
from patchword.lab.context import Lab
from patchword.lab.errors import UnknownIdError
from patchword.lab.lessons.lesson import Lesson
from patchword.lab.models import ListedModel
from patchword.lab.routes import (
    compare,
    cost,
    embeddings,
    files,
    landscape,
    lessons,
    patches,
    positions,
    runs,
    translate,
    windows,
    words,
)
from patchword.serving.access import Access
from patchword.serving.error_response import error_json
from patchword.serving.guard import Guard, Limits

log = logging.getLogger(__name__)

PARTS = (files, cost, embeddings, windows, lessons, compare, landscape, words, patches, translate, positions, runs)


@dataclass(frozen=True)
class LabSettings:
    """What an application of the lab needs.

    limits: images have at most 8 MB; JSON is limited where it is read. runs: the folder of the runs.
    """

    access: Access
    bundle: Bundle
    models: Mapping[str, ListedModel]
    lessons: Sequence[Lesson] = ()
    limits: Limits = field(default_factory=lambda: Limits(body_bytes=8_000_000))
    runs: Path = Path("runs")


def build_app(settings: LabSettings) -> ASGIApp:
    """Return the guarded application."""
    lab = Lab(settings.bundle, settings.models, settings.lessons, settings.runs)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        lab.start()
        yield
        lab.close()

    app = Starlette(
        routes=[route for part in PARTS for route in part.routes(lab)],
        lifespan=lifespan,
        exception_handlers={UserError: _user_error, HTTPException: _http_error, OSError: _file_error},
    )
    app.router.redirect_slashes = False
    return Guard(app, settings.access, settings.limits)


async def _user_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UserError)
    return JSONResponse(error_json(error), 404 if isinstance(error, UnknownIdError) else 422)


async def _file_error(request: Request, error: Exception) -> Response:
    """Answer for a file that was deleted meanwhile or cannot be written; its path stays on this side."""
    assert isinstance(error, OSError)
    log.warning("the request %s %s failed: %s", request.method, request.url.path, error)
    reason = os.strerror(error.errno).lower() if error.errno else None
    what = UserError("a file or a folder cannot be used", got=reason, hint="was it moved, deleted or protected?")
    return JSONResponse(error_json(what), 422)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse(error_json(UserError(error.detail)), error.status_code, headers=error.headers)
