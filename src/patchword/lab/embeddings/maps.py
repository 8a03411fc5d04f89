"""What the page Embeddings asks: the points of a set, their map by layer, and their neighbours. Results are kept."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from patchword.analysis.embeddings import (
    METHODS,
    Projection,
    are_equal,
    find_method,
    neighbour_agreement,
    neighbours,
    project,
)
from patchword.core.errors import UserError
from patchword.lab.context import Lab
from patchword.lab.embeddings.given import GivenTexts
from patchword.lab.embeddings.sets import ListedSet, PointSet, find_set, reads_of, sets_of
from patchword.lab.models import ListedModel, find_model
from patchword.layers import Pyramid
from patchword.pipelines.interface import Pipeline
from patchword.recipes.text.inference.answers import ClassAnswer
from patchword.recipes.vectors.words import Neighbour, WordVectors

Pool = Literal["head", "mean"]
Vectors = NDArray[np.float32]
MOST_MACS = 3e11  # of all images of a set in one layer: 10 seconds on one core
FEWEST_IMAGES = 40
_KEPT = 200_000_000  # bytes of vectors
T = TypeVar("T")


@dataclass(frozen=True)
class Points:
    """A set that was read, with the predictions of the model. predicted: labels and probabilities, or none at all."""

    points: PointSet
    predicted: tuple[tuple[str, float], ...]
    layers: int
    has_pools: bool


@dataclass(frozen=True)
class Map:
    """A projection of the vectors of a layer. agreement: points whose nearest neighbour has their label, a fraction."""

    projection: Projection
    norms: Vectors
    agreement: float | None
    layer: int


class Saved:
    """The last results, at most so many bytes of arrays; each is computed once, also for requests at the same time."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._found: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], T], size: Callable[[T], int]) -> T:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return cast(T, self._found[key][0])
        value = compute()
        with self._lock:
            self._found[key] = (value, size(value))
            while len(self._found) > 1 and sum(used for _, used in self._found.values()) > self._most:
                self._found.popitem(last=False)
        return value


class Maps:
    """Answers the routes of the page."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.given = lab, GivenTexts()
        self._saved = Saved(_KEPT)

    def listing(self) -> dict[str, Any]:
        """Return the models with their sets, and the projections with what is to be installed."""
        models = [
            {
                "id": one.id,
                "name": one.name,
                "reads": reads_of(one),
                "sets": [each.to_json() for each in found.values()],
            }
            for one in self.lab.models.values()
            if (found := sets_of(one))
        ]
        methods = [
            {"id": id, "title": one.title, "install": "" if one.is_installed else f"pip install {one.package}"}
            for id, one in METHODS.items()
        ]
        return {"models": models, "projections": methods}

    async def points(self, id: str, set: str) -> Points:
        """Return the points of a set with the predictions of the model."""
        return await self._ask(id, lambda p, words: self._points(id, set, p, words))

    async def map(self, id: str, set: str, layer: int | None, pool: Pool, method: str) -> Map:
        """Return the map of a layer."""
        return await self._ask(id, lambda p, words: self._map(id, set, layer, pool, method, p, words))

    async def neighbours(
        self, id: str, set: str, layer: int | None, pool: Pool, point: int, count: int
    ) -> list[tuple[int, float]]:
        """Return the nearest points by cosine."""

        def find(p: Pipeline | None, words: WordVectors | None) -> list[tuple[int, float]]:
            vectors = self._vectors(id, set, layer, pool, p, words)[0]
            if not 0 <= point < len(vectors):
                raise UserError("point", expected=f"0 to {len(vectors) - 1}", got=point)
            return neighbours(vectors, point, count)

        return await self._ask(id, find)

    async def words(self, id: str, question: Callable[[WordVectors], list[Neighbour]]) -> list[Neighbour]:
        """Ask a model of word vectors."""
        if reads_of(find_model(self.lab.models, id)) != "words":
            raise UserError(f"{id} has no word vectors", expected="a model of word vectors")
        return await self._ask(id, lambda p, words: question(cast(WordVectors, words)))

    async def _ask(self, id: str, question: Callable[[Pipeline | None, WordVectors | None], T]) -> T:
        """Call a question with the model: a pipeline, or word vectors."""
        model = find_model(self.lab.models, id)
        if reads_of(model) == "words":
            return await self.lab.opened.run(lambda: question(None, self._word_vectors(model)))
        return await self.lab.opened.ask(id, lambda p: question(p, None))

    def _word_vectors(self, model: ListedModel) -> WordVectors:
        return self._saved.get(("words", model.id), lambda: WordVectors.read(model.source), lambda w: w.vectors.nbytes)

    def _points(self, id: str, set: str, p: Pipeline | None, words: WordVectors | None) -> Points:
        def compute() -> Points:
            model = find_model(self.lab.models, id)
            listed = sets_of(model) | (self.given.listed() if reads_of(model) == "texts" else {})
            return read_points(find_set(listed, set), p)

        return self._saved.get(("points", id, set), compute, _bytes_of)

    def _vectors(
        self, id: str, set: str, layer: int | None, pool: Pool, p: Pipeline | None, words: WordVectors | None
    ) -> tuple[Vectors, Points, int]:
        """Return the vectors, the points, and the number of the layer."""
        points = self._points(id, set, p, words)
        number = points.layers if layer is None else layer
        if not 0 <= number <= points.layers:
            raise UserError("layer", expected=f"0 to {points.layers}", got=layer)
        if pool == "mean" and not points.has_pools:
            raise UserError("pool", expected="head, as the model has no other", got=pool)

        def compute() -> list[Vectors]:
            return embedded(points.points, pool, p, words)

        found = self._saved.get(("vectors", id, set, pool), compute, lambda all: sum(one.nbytes for one in all))
        return found[number], points, number

    def _map(
        self,
        id: str,
        set: str,
        layer: int | None,
        pool: Pool,
        method: str,
        p: Pipeline | None,
        words: WordVectors | None,
    ) -> Map:
        find_method(method)  # before the vectors, which can take a minute
        vectors, points, number = self._vectors(id, set, layer, pool, p, words)

        def compute() -> Map:
            labels = points.points.labels
            agreement = neighbour_agreement(vectors, _numbers(labels)) if labels and not are_equal(vectors) else None
            projection = project(method, vectors, 3 if method == "pca" else 2)
            return Map(projection, np.linalg.norm(vectors, axis=1).astype(np.float32), agreement, number)

        key = ("map", id, set, number, pool, method)
        return self._saved.get(key, compute, lambda one: one.projection.points.nbytes)


def read_points(listed: ListedSet, p: Pipeline | None) -> Points:
    """Read a set and predict its labels. Images of an expensive model are fewer."""
    if p is None:
        return Points(listed.read(None), (), 0, False)
    reads_images = isinstance(p.model, Pyramid)
    points = listed.read(p.model.card)
    if reads_images:
        points = points.first(max(FEWEST_IMAGES, int(MOST_MACS / p.cost().macs)))
    return Points(points, predicted(points, p), p.layers, reads_images)


def predicted(points: PointSet, p: Pipeline) -> tuple[tuple[str, float], ...]:
    """Return the label and the probability per input, if the model predicts the labels of the set."""
    if not points.labels or not set(points.labels) <= set(p.labels):
        return ()
    found = [(one.label, one.probability) for one in p(_inputs(points), top=1) if isinstance(one.output, ClassAnswer)]
    return tuple(found) if len(found) == len(points) else ()


def embedded(points: PointSet, pool: Pool, p: Pipeline | None, words: WordVectors | None) -> list[Vectors]:
    """Return one vector per input for each layer, as `p.embed` computes them."""
    if words is not None:
        return [words.of(cast(tuple[str, ...], points.inputs))]
    assert p is not None, "a model that is no table of word vectors is a pipeline"
    return p.embed_layers(_inputs(points), pool=None if pool == "head" else pool, normalize=False)


def _inputs(points: PointSet) -> Any:
    return list(points.inputs) if not isinstance(points.inputs, torch.Tensor) else points.inputs


def _numbers(labels: tuple[str, ...]) -> list[int]:
    known = {label: number for number, label in enumerate(sorted(set(labels)))}
    return [known[label] for label in labels]


def _bytes_of(points: Points) -> int:
    inputs = points.points.inputs
    return inputs.nbytes if isinstance(inputs, torch.Tensor) else sum(map(len, inputs))
