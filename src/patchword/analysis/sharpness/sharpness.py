"""Sharpness of a minimum: curvature, and how far the loss rises near the weights.

eigenvalues, trace   of the Hessian of the mean loss over a sample (hessian.py)
epsilon-sharpness    max over |e| <= rho of L(w + e) - L(w) (Keskar et al., 2017, with SAM's ball: Foret et al., 2021)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.analysis.sharpness.hessian import AT_ONCE, Estimate, Spectrum, SpectrumCallback, lanczos, normal, trace
from patchword.analysis.sharpness.loss import SampleLoss, Value
from patchword.core.errors import UserError


@dataclass(frozen=True)
class Ball:
    """The highest loss found in a ball. rise: above the loss at the centre; one_step: the rise of SAM's single step."""

    radius: float
    rise: float
    one_step: float
    slope: float  # the norm of the gradient at the centre: times the radius, the rise of a plane
    history: tuple[float, ...]  # the best rise so far, after each gradient


@dataclass(frozen=True)
class SharpnessOptions:
    """The options of the measurement, and its limits."""

    eigenvalues: int = 5
    products: int = 60  # maximum number of Hessian-vector products for the eigenvalues
    probes: int = 20  # random vectors for the trace
    rho: float = 0.05
    steps: int = 20  # steps of gradient ascent in the ball
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("eigenvalues", 1), ("products", 1), ("probes", 2), ("steps", 1)):
            if getattr(self, name) < least:
                raise UserError(f"too few {name}", expected=f"{least} or more", got=getattr(self, name))
        if not 0 < self.rho < float("inf"):
            raise UserError("wrong radius rho", expected="a number above 0", got=self.rho)
        if self.products < self.eigenvalues:
            raise UserError(f"{self.eigenvalues} eigenvalues need at least as many products", got=self.products)


@dataclass(frozen=True)
class Sharpness:
    """The result of the measurement."""

    at: Value
    spectrum: Spectrum
    trace: Estimate
    ball: Ball


# called with the name of a phase, and the maximum number of passes over the sample
PhaseCallback = Callable[[str, int], None]


def measure(
    loss: SampleLoss,
    options: SharpnessOptions,
    on_phase: PhaseCallback = lambda *_: None,
    on_spectrum: SpectrumCallback = lambda _: None,
) -> Sharpness:
    """Measure eigenvalues, trace and epsilon-sharpness at the model's weights, which are not changed."""
    on_phase("loss", 1)
    at = loss.value()
    on_phase("eigenvalues", min(options.products, loss.weights))
    start = normal(loss.weights, options.seed).to(loss.zeros())
    spectrum = lanczos(loss.products, start, min(options.eigenvalues, loss.weights), options.products, on_spectrum)
    on_phase("trace", -(-options.probes // AT_ONCE))
    found = trace(loss.products, start, options.probes, options.seed + 1, spectrum)
    on_phase("highest loss nearby", options.steps + 3)
    return Sharpness(at, spectrum, found, highest(loss, options.rho, options.steps, spectrum.vectors()[0]))


def highest(loss: SampleLoss, radius: float, steps: int, curved: Tensor | None = None) -> Ball:
    """Projected gradient ascent from the better of SAM's step and, if it is given, the most curved direction.

    The first step is as long as the radius; a step that does not climb is undone and the next is half as long. The
    result is a loss that was evaluated, so it is at most the true maximum.
    """
    with loss.moved_weights() as move_to:
        low, gradient = loss.gradient()
        slope = float(gradient.norm())
        starts = [_onto(gradient, radius)]
        if curved is not None:
            sign = 1.0 if float(gradient @ curved) >= 0 else -1.0
            starts.append(_onto(sign * curved, radius))
        found = []
        for place in starts:
            move_to(place)
            found.append((*loss.gradient(), place))
        one_step = found[0][0] - low
        best, uphill, place = max(found, key=lambda one: one[0])
        history, stride = [one_step, best - low], radius
        for _ in range(steps):
            further = place + _onto(uphill, stride)
            trial = _onto(further, radius) if float(further.norm()) > radius else further
            move_to(trial)
            value, gradient = loss.gradient()
            if value > best:
                best, uphill, place = value, gradient, trial
            else:
                stride /= 2
            history.append(best - low)
    return Ball(radius, best - low, one_step, slope, tuple(history))


def _onto(vector: Tensor, length: float) -> Tensor:
    """Return the vector scaled to a length; zero stays zero."""
    norm = vector.norm()
    return torch.where(norm > 0, vector * (length / norm.clamp(min=torch.finfo(vector.dtype).tiny)), 0.0)
