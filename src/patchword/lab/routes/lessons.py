"""The lessons, which are read when the lab starts."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.lab.context import Lab
from patchword.lab.replies import JSON, encoded


def routes(lab: Lab) -> list[Route]:
    listed = encoded({"lessons": [lesson.to_json() for lesson in lab.lessons]})

    async def lessons(request: Request) -> Response:
        return Response(listed, media_type=JSON)

    return [Route("/api/lessons", lessons)]
