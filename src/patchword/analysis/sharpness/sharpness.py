"""How sharp a minimum is: curvature, and how far the loss rises nearby.

eigenvalues, trace   of the Hessian of the mean loss over a sample (hessian.py)
epsilon-sharpness    max over |e| <= rho of L(w + e) - L(w) (Keskar et al., 2017, with SAM's ball: Foret et al., 2021)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.analysis.sharpness.hessian import AT_ONCE, Estimate, Heard, Spectrum, lanczos, normal, trace
from patchword.analysis.sharpness.loss import SampleLoss, Value
from patchword.core.errors import UserError


@dataclass(frozen=True)
class Ball:
    """The highest loss found within a radius. rise: over the centre; one_step: of SAM's own single step."""

    radius: float
    rise: float
    one_step: float
    slope: float  # the length of the gradient at the centre: radius times it is what one expects of a plane
    history: tuple[float, ...]  # the best rise so far, after each gradient


@dataclass(frozen=True)
class Wish:
    """What is measured and how much may be spent on it."""

    eigenvalues: int = 5
    products: int = 60  # at most, for the eigenvalues
    probes: int = 20  # of the trace
    rho: float = 0.05
    steps: int = 20  # of the ascent in the ball
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("eigenvalues", 1), ("products", 1), ("probes", 2), ("steps", 1)):
            if getattr(self, name) < least:
                raise UserError(f"too few {name}", expected=f"{least} or more", got=getattr(self, name))
        if not 0 < self.rho < float("inf"):
            raise UserError("the radius rho", expected="a number above 0", got=self.rho)
        if self.products < self.eigenvalues:
            raise UserError(f"{self.eigenvalues} eigenvalues need as many products", got=self.products)


@dataclass(frozen=True)
class Sharpness:
    at: Value
    spectrum: Spectrum
    trace: Estimate
    ball: Ball


# the name of a part, and how often it reads the sample at most
Begun = Callable[[str, int], None]


def measure(loss: SampleLoss, wish: Wish, begun: Begun = lambda *_: None, heard: Heard = lambda _: None) -> Sharpness:
    """Eigenvalues, trace and epsilon-sharpness of a model where its weights are; they are not changed."""
    begun("loss", 1)
    at = loss.value()
    begun("eigenvalues", min(wish.products, loss.weights))
    start = normal(loss.weights, wish.seed).to(loss.zeros())
    spectrum = lanczos(loss.products, start, min(wish.eigenvalues, loss.weights), wish.products, heard)
    begun("trace", -(-wish.probes // AT_ONCE))
    found = trace(loss.products, start, wish.probes, wish.seed + 1, spectrum)
    begun("highest loss nearby", wish.steps + 3)
    return Sharpness(at, spectrum, found, highest(loss, wish.rho, wish.steps, spectrum.vectors()[0]))


def highest(loss: SampleLoss, radius: float, steps: int, curved: Tensor | None = None) -> Ball:
    """Projected gradient ascent from the better of SAM's step and, where it is given, the most curved direction.

    A step is as long as the radius at first; one that does not climb is taken back and the next is half as long. What
    is found is a loss that is there, so it is at most the true maximum.
    """
    with loss.walking() as go:
        low, gradient = loss.gradient()
        slope = float(gradient.norm())
        starts = [_onto(gradient, radius)]
        if curved is not None:
            sign = 1.0 if float(gradient @ curved) >= 0 else -1.0
            starts.append(_onto(sign * curved, radius))
        found = []
        for place in starts:
            go(place)
            found.append((*loss.gradient(), place))
        one_step = found[0][0] - low
        best, uphill, place = max(found, key=lambda one: one[0])
        history, stride = [one_step, best - low], radius
        for _ in range(steps):
            further = place + _onto(uphill, stride)
            trial = _onto(further, radius) if float(further.norm()) > radius else further
            go(trial)
            value, gradient = loss.gradient()
            if value > best:
                best, uphill, place = value, gradient, trial
            else:
                stride /= 2
            history.append(best - low)
    return Ball(radius, best - low, one_step, slope, tuple(history))


def _onto(vector: Tensor, length: float) -> Tensor:
    """the same direction, so long; nothing has no direction"""
    norm = vector.norm()
    return torch.where(norm > 0, vector * (length / norm.clamp(min=torch.finfo(vector.dtype).tiny)), 0.0)
