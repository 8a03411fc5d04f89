"""Maps of vectors: projections to a few dimensions, nearest neighbours, and how well classes are separated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray

from patchword.core.errors import UserError

Vectors = NDArray[np.float32]
_NOISE = 1e-5  # a spread below this fraction of the mean length is rounding
_LARGEST = 2000  # points of t-SNE and UMAP, whose time grows faster than the number of points


@dataclass(frozen=True)
class Projection:
    """points: (count, components) float32. explained: the fraction of the variance per component; only of a PCA."""

    points: Vectors
    explained: tuple[float, ...] = ()


@dataclass(frozen=True)
class Method:
    """A projection of the package `module`. package: its name for pip."""

    title: str
    project: Callable[[Vectors, int], Projection]
    module: str = "torch"
    package: str = "torch"

    @property
    def is_installed(self) -> bool:
        return find_spec(self.module) is not None


def pca(vectors: Vectors, components: int = 3) -> Projection:
    """Project on the directions of the largest variance (exact, float64).

    The sign of a direction is such that its entry of the largest magnitude is positive. Components that the vectors do
    not have are zeros.
    """
    given = torch.as_tensor(vectors, dtype=torch.float64)
    centred = given - given.mean(0)
    _, values, directions = torch.linalg.svd(centred, full_matrices=False)
    floor = _NOISE * float(given.norm()) if len(given) else 0.0
    kept = min(components, int((values > floor).sum()))
    directions = directions[:kept]
    if kept:
        directions = directions * directions.gather(1, directions.abs().argmax(1, keepdim=True)).sign()
    points = torch.zeros(len(given), components, dtype=torch.float64)
    points[:, :kept] = centred @ directions.T
    total = float(values.square().sum()) or 1.0
    explained = [float(value) ** 2 / total for value in values[:kept]]
    return Projection(points.float().numpy(), (*explained, *[0.0] * (components - kept)))


def tsne(vectors: Vectors, components: int = 2, seed: int = 0) -> Projection:
    """Project by t-SNE of scikit-learn (van der Maaten and Hinton, 2008); the same seed gives the same points."""
    from sklearn.manifold import TSNE

    _check_count(vectors)
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    model = TSNE(components, perplexity=perplexity, init="pca", random_state=seed)
    return Projection(np.asarray(model.fit_transform(_unique_enough(vectors)), np.float32))


def umap(vectors: Vectors, components: int = 2, seed: int = 0) -> Projection:
    """Project by UMAP of umap-learn (McInnes et al., 2018); the same seed gives the same points."""
    from umap import UMAP

    _check_count(vectors)
    model = UMAP(n_components=components, n_neighbors=min(15, len(vectors) - 1), random_state=seed, n_jobs=1)
    return Projection(np.asarray(model.fit_transform(_unique_enough(vectors)), np.float32))


METHODS: Mapping[str, Method] = {
    "pca": Method("PCA", pca),
    "tsne": Method("t-SNE", tsne, "sklearn", "scikit-learn"),
    "umap": Method("UMAP", umap, "umap", "umap-learn"),
}


def project(name: str, vectors: Vectors, components: int) -> Projection:
    """Project by one of METHODS; one whose package is not installed is an error that says what to install."""
    return find_method(name).project(vectors, components)


def find_method(name: str) -> Method:
    """Return one of METHODS whose package is installed."""
    if name not in METHODS:
        raise UserError("projection", expected=", ".join(METHODS), got=name[:80])
    method = METHODS[name]
    if not method.is_installed:
        raise UserError(f"{method.title} is not installed", hint=f"pip install {method.package}")
    return method


def are_equal(vectors: Vectors) -> bool:
    """True if the vectors differ by rounding alone, as [CLS] tokens before the first block do."""
    return bool(np.ptp(vectors, axis=0).max() <= _NOISE * np.abs(vectors).max())


def neighbours(vectors: Vectors, row: int, count: int = 10) -> list[tuple[int, float]]:
    """Return the rows with the highest cosine similarity to a row, without itself, and their cosines."""
    unit = _unit(vectors)
    cosines = unit @ unit[row]
    order = np.argsort(-cosines, kind="stable")
    return [(int(other), float(cosines[other])) for other in order[order != row][:count]]


def neighbour_agreement(vectors: Vectors, labels: Sequence[int]) -> float:
    """Return the fraction of the rows whose nearest neighbour by cosine has the same label."""
    cosines, known = _unit(vectors) @ _unit(vectors).T, np.asarray(labels)
    np.fill_diagonal(cosines, -np.inf)
    return float((known[cosines.argmax(1)] == known).mean())


def _unit(vectors: Vectors) -> NDArray[np.float64]:
    wide = np.asarray(vectors, np.float64)
    found: NDArray[np.float64] = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
    return found


def _check_count(vectors: Vectors) -> None:
    if not 4 <= len(vectors) <= _LARGEST:
        raise UserError(
            "the number of points", expected=f"4 to {_LARGEST:,}", got=len(vectors), hint="PCA has no limit"
        )


def _unique_enough(vectors: Vectors) -> Vectors:
    """Refuse vectors that are all the same, of which no map can be made."""
    if are_equal(vectors):
        raise UserError("all vectors are the same", hint="choose another layer or pooling")
    return vectors
