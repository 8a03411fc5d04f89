"""The page Embeddings: sets and their points, maps by layer, nearest neighbours, and word vectors."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from patchword.lab.context import Lab
from patchword.lab.embeddings.given import read_given_table
from patchword.lab.embeddings.maps import Maps, Points, Pool
from patchword.lab.embeddings.sprite import columns_of, sprite, tile_of
from patchword.lab.replies import arrays_reply, json_reply
from patchword.lab.requests import BYTES, Fields, read_bytes, read_json
from patchword.recipes.vectors.words import Neighbour

MOST_NEIGHBOURS = 50
Id = Annotated[str, Field(max_length=80)]
Word = Annotated[str, Field(min_length=1, max_length=100)]
Count = Annotated[int, Field(ge=1, le=MOST_NEIGHBOURS)]
Text = Annotated[str, Field(max_length=20_000)]


class SetFields(Fields):
    set: Id


class LayerFields(SetFields):
    """layer: the last one by default. pool: as the head reads its tokens, or the mean of the patches."""

    layer: int | None = None
    pool: Pool = "head"


class MapFields(LayerFields):
    projection: Id = "pca"


class NeighbourFields(LayerFields):
    point: int
    count: Count = 10


class TextFields(Fields):
    texts: Annotated[list[Text], Field(max_length=5000)]
    labels: list[Text] = Field(default_factory=list, max_length=5000)


class NearFields(Fields):
    word: Word
    count: Count = 10


class AnalogyFields(Fields):
    """first is to second as third is to the answer."""

    first: Word
    second: Word
    third: Word
    count: Count = 10


def routes(lab: Lab) -> list[Route]:
    maps = Maps(lab)

    async def listing(request: Request) -> Response:
        return json_reply(await run_in_threadpool(maps.listing))

    async def points(request: Request) -> Response:
        asked = await read_json(request, SetFields)
        return json_reply(points_json(await maps.points(request.path_params["id"], asked.set)))

    async def project(request: Request) -> Response:
        asked = await read_json(request, MapFields)
        id = request.path_params["id"]
        found = await maps.map(id, asked.set, asked.layer, asked.pool, asked.projection)
        about = {"layer": found.layer, "explained": found.projection.explained, "agreement": found.agreement}
        points, norms = (torch.from_numpy(np.asarray(one)) for one in (found.projection.points, found.norms))
        return arrays_reply(about, {"points": points, "norms": norms})

    async def neighbours(request: Request) -> Response:
        asked = await read_json(request, NeighbourFields)
        id = request.path_params["id"]
        found = await maps.neighbours(id, asked.set, asked.layer, asked.pool, asked.point, asked.count)
        return json_reply({"neighbours": [{"point": point, "cosine": cosine} for point, cosine in found]})

    async def tiles(request: Request) -> Response:
        found = await maps.points(request.path_params["id"], request.query_params.get("set", "")[:80])
        return Response(await run_in_threadpool(sprite, found.points.images), media_type="image/png")

    async def texts(request: Request) -> Response:
        """Keep texts of the user: JSON, or the bytes of a CSV table."""
        if request.headers.get("content-type", "").startswith(BYTES):
            given, labels = await run_in_threadpool(read_given_table, await read_bytes(request))
        else:
            asked = await read_json(request, TextFields)
            given, labels = asked.texts, asked.labels
        return json_reply({"set": maps.given.add(given, labels), "count": len(given)})

    async def near(request: Request) -> Response:
        asked = await read_json(request, NearFields)
        return words_reply(await maps.words(request.path_params["id"], lambda w: w.near(asked.word, asked.count)))

    async def analogy(request: Request) -> Response:
        asked = await read_json(request, AnalogyFields)
        terms = (asked.first, asked.second, asked.third)
        return words_reply(await maps.words(request.path_params["id"], lambda w: w.analogy(*terms, asked.count)))

    def post(path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> Route:
        return Route(path, endpoint, methods=["POST"])

    return [
        Route("/api/embeddings", listing),
        post("/api/embeddings/{id}", project),
        post("/api/embeddings/{id}/points", points),
        post("/api/embeddings/{id}/neighbours", neighbours),
        Route("/api/embeddings/{id}/sprite", tiles),
        post("/api/texts", texts),
        post("/api/words/{id}/near", near),
        post("/api/words/{id}/analogy", analogy),
    ]


def points_json(found: Points) -> dict[str, object]:
    """Return what the page shows of points: classes, and per point its class, its prediction and its text."""
    points = found.points
    classes = sorted({*points.labels, *(label for label, _ in found.predicted)})
    number = {label: place for place, label in enumerate(classes)}
    images = points.inputs if isinstance(points.inputs, torch.Tensor) else None
    return {
        "count": len(points),
        "total": points.total or len(points),
        "layers": found.layers,
        "pools": ["head", "mean"] if found.has_pools else ["head"],
        "classes": classes,
        "labels": [number[label] for label in points.labels],
        "predictions": [number[label] for label, _ in found.predicted],
        "probabilities": [round(probability, 6) for _, probability in found.predicted],
        "texts": [] if images is not None else list(points.inputs),
        "tile": 0 if images is None else tile_of(images),
        "columns": 0 if images is None else columns_of(len(points)),
    }


def words_reply(found: list[Neighbour]) -> Response:
    return json_reply({"words": [{"word": one.word, "cosine": one.cosine} for one in found]})
