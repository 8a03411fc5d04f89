"""The loss landscape around a model's weights along one or two directions (Li et al., 2018).

random   Gaussian noise, each filter scaled to the norm of the model's own filter: a row of a matrix, a kernel of a
         convolution, the embedding of a word, a position or a leading token. A distance of 1 moves every filter by its
         own norm. Biases and norms (all vectors) do not move.
eigen    the leading eigenvectors of the Hessian, of length 1: a distance in the space of all weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from patchword.analysis.sharpness.hessian import SpectrumCallback, lanczos, normal, numbers
from patchword.analysis.sharpness.loss import SampleLoss, flat
from patchword.core.errors import UserError

Kind = Literal["random", "eigen"]


@dataclass(frozen=True)
class LossLandscape:
    """losses, accuracies: (size,), or (size, size) with the first direction along the columns; float64."""

    places: Tensor  # (size,) coordinates along every direction, 0 in the middle
    losses: Tensor
    accuracies: Tensor

    @property
    def middle(self) -> tuple[float, float]:
        """Loss and accuracy of the model itself."""
        centre = (len(self.places) // 2,) * self.losses.ndim
        return float(self.losses[centre]), float(self.accuracies[centre])


def places(size: int, radius: float) -> Tensor:
    """Return an odd number of coordinates, so that the model itself is one of the points."""
    if size < 3 or size % 2 == 0:
        raise UserError("wrong number of points per axis", expected="an odd number, 3 or more", got=size)
    if not 0 < radius < float("inf"):
        raise UserError("wrong radius of the landscape", expected="a number above 0", got=radius)
    return torch.linspace(-radius, radius, size, dtype=torch.float64)


def filter_normalised(loss: SampleLoss, seed: int) -> Tensor:
    """(weights,) one random direction."""
    generator = numbers(seed)
    parts = []
    for parameter in loss.parameters:
        noise = torch.randn(parameter.shape, generator=generator).to(parameter)
        parts.append(_scaled_like(noise, parameter.detach()) if parameter.ndim > 1 else torch.zeros_like(noise))
    return flat(parts)


def _scaled_like(noise: Tensor, weight: Tensor) -> Tensor:
    rows = (
        weight[0] if weight.ndim == 3 and len(weight) == 1 else weight.flatten(1)
    )  # (1, positions, width): per position
    drawn = noise.view_as(rows)
    scaled: Tensor = drawn * (rows.norm(dim=1, keepdim=True) / drawn.norm(dim=1, keepdim=True).clamp(min=1e-12))
    return scaled.view_as(weight)


def directions(
    loss: SampleLoss,
    kind: Kind,
    count: int,
    seed: int = 0,
    products: int = 60,
    on_spectrum: SpectrumCallback = lambda _: None,
) -> Tensor:
    """Return the directions, (count, weights)."""
    if kind == "random":
        return torch.stack([filter_normalised(loss, seed + number) for number in range(count)])
    start = normal(loss.weights, seed).to(loss.zeros())
    found = lanczos(loss.products, start, min(count, loss.weights), products, on_spectrum)
    if len(found.values) < count:
        raise UserError("too few Hessian-vector products for the eigenvectors", expected=count, got=products)
    return found.vectors()


def loss_landscape(
    loss: SampleLoss, along: Tensor, at: Tensor, on_point: Callable[[], None] = lambda: None
) -> LossLandscape:
    """Evaluate loss and accuracy at every point of a grid, then restore the weights.

    along: (1 or 2, weights). at: (size,) coordinates along each direction. on_point: called after each point.
    """
    size = len(at)
    found = []
    with loss.moved_weights() as move_to:
        for point in _points(at, len(along)):
            step = (distance * way for distance, way in zip(point, along, strict=True))
            move_to(sum(step, torch.zeros_like(along[0])))
            found.append(loss.totals())
            on_point()
    both = torch.stack(found).cpu().double().view(*[size] * len(along), 2)
    result = LossLandscape(at, both[..., 0], both[..., 1])
    if not torch.tensor(result.middle[0]).isfinite():
        raise UserError("the loss of the run's own weights is not finite", got=result.middle[0])
    return result


def _points(at: Tensor, dimensions: int) -> list[Sequence[float]]:
    """Yield the points row by row: the second direction changes slowly."""
    across = [(value,) for value in at.tolist()]
    if dimensions == 1:
        return list(across)
    return [(first, second) for second in at.tolist() for (first,) in across]
