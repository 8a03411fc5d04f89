"""The page Positions: learned tables, and attention that computes a convolution."""

from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.core.errors import UserError
from patchword.lab.context import Lab
from patchword.lab.positions.convolution import convolution_json
from patchword.lab.positions.tables import models_with_tables, tables_of
from patchword.lab.replies import JSON, arrays_reply, encoded, json_reply
from patchword.lab.requests import Fields, read_json

Weights = Annotated[list[Annotated[float, Field(ge=-100, le=100)]], Field(min_length=3, max_length=3)]
Pixels = Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=3, max_length=20)]


class ConvolutionFields(Fields):
    kernel: Annotated[list[Weights], Field(min_length=3, max_length=3)]
    image: Annotated[list[Pixels], Field(min_length=3, max_length=20)]
    strength: float = Field(200.0, ge=0, le=200)


def routes(lab: Lab) -> list[Route]:
    listed = encoded({"models": models_with_tables(lab.models.values())})

    async def models(request: Request) -> Response:
        return Response(listed, media_type=JSON)

    async def tables(request: Request) -> Response:
        return arrays_reply(*await lab.opened.ask(request.path_params["id"], tables_of))

    async def convolution(request: Request) -> Response:
        asked = await read_json(request, ConvolutionFields)
        if any(len(line) != len(asked.image) for line in asked.image):
            raise UserError("the image is not square", expected="as many lines as columns")
        found = await lab.opened.run(lambda: convolution_json(asked.kernel, asked.image, asked.strength))
        return json_reply(found)

    return [
        Route("/api/positions", models),
        Route("/api/positions/convolution", convolution, methods=["POST"]),
        Route("/api/positions/{id}", tables),
    ]
