"""The Hessian of a loss by its products with vectors alone: leading eigenvalues (Lanczos) and trace (Hutchinson)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

TOLERANCE = 1e-3  # an eigenvalue has converged when its residual is below this share of it
AT_ONCE = 4  # probes that share a pass over the sample

Product = Callable[[Tensor], Tensor]  # (count, weights) -> (count, weights)
Heard = Callable[["Spectrum"], None]


@dataclass(frozen=True)
class Spectrum:
    """What Lanczos knows after some products.

    The residual |H v - value v| of a unit vector v bounds the error: an eigenvalue lies within it of `value`. Where the
    next one is a gap away the error is its square over the gap, which is far smaller.
    """

    values: Tensor  # (wanted,) float64, the largest first
    residuals: Tensor  # (wanted,)
    lowest: float
    lowest_residual: float
    basis: Tensor  # (products, weights) orthonormal
    inside: float  # the trace of the Hessian within the basis
    mixes: Tensor  # (wanted, products) float64: each eigenvector in the basis
    history: tuple[tuple[float, ...], ...] = ()  # the leading estimates after each product

    @property
    def products(self) -> int:
        return len(self.history)

    @property
    def converged(self) -> list[bool]:
        return (self.residuals <= TOLERANCE * self.values.abs()).tolist()

    def vectors(self) -> Tensor:
        """(wanted, weights) unit vectors"""
        return self.mixes.to(self.basis) @ self.basis


def lanczos(product: Product, start: Tensor, wanted: int, most: int, heard: Heard = lambda _: None) -> Spectrum:
    """The `wanted` largest eigenvalues, with at most so many products; fewer where all have converged.

    Every new vector is made orthogonal to all before it, twice: without that, rounding brings copies of eigenvalues
    that were found already (Paige, 1971). Where the space that the start reaches is used up, it goes on with a new
    direction, so that equal eigenvalues are found as often as they are there.
    """
    most = min(most, start.numel())
    basis = start.new_empty(most, start.numel())
    basis[0] = start / start.norm()
    middle: list[float] = []
    beside: list[float] = []
    history: list[tuple[float, ...]] = []
    while True:
        count = len(middle) + 1
        image = product(basis[count - 1 : count])[0]
        inside = basis[:count] @ image
        middle.append(float(inside[-1]))
        image = image - inside @ basis[:count]
        image = image - (basis[:count] @ image) @ basis[:count]
        length = float(image.norm())
        used_up = length <= 1e-6 * max(abs(value) for value in (*middle, *beside, 1e-30))
        found = _spectrum(middle, beside, length, wanted, basis[:count])
        history.append(tuple(found.values.tolist()))
        found = replace(found, history=tuple(history))
        heard(found)
        if count == most or (len(found.values) == wanted and all(found.converged) and not used_up):
            return found
        beside.append(0.0 if used_up else length)
        basis[count] = _elsewhere(basis[:count], count) if used_up else image / length


def _spectrum(middle: list[float], beside: list[float], length: float, wanted: int, basis: Tensor) -> Spectrum:
    """The eigenvalues of the tridiagonal matrix that the Hessian is in the basis."""
    diagonal, next_to = torch.tensor(middle, dtype=torch.float64), torch.tensor(beside, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(diagonal.diag() + next_to.diag(1) + next_to.diag(-1))
    values, vectors = values.flip(0), vectors.flip(1)
    rounding = torch.finfo(basis.dtype).eps * float(values.abs().max())
    residuals = (length * vectors[-1].abs()).clamp(min=rounding)
    lowest, lowest_residual = float(values[-1]), float(residuals[-1])
    leading = vectors[:, :wanted].T.contiguous()
    inside = float(diagonal.sum())
    return Spectrum(values[:wanted], residuals[:wanted], lowest, lowest_residual, basis, inside, leading)


def _elsewhere(basis: Tensor, seed: int) -> Tensor:
    """a random unit vector that is orthogonal to all of the basis"""
    vector: Tensor = normal(basis.shape[1], seed).to(basis)
    for _ in range(2):
        vector = vector - (basis @ vector) @ basis
    unit: Tensor = vector / vector.norm()
    return unit


def numbers(seed: int) -> torch.Generator:
    """The same on every machine, and not those that a model of this seed drew its first weights from."""
    return torch.Generator().manual_seed((seed + 1) * 0x9E3779B97F4A7C15 % 2**63)


def normal(count: int, seed: int) -> Tensor:
    return torch.randn(count, generator=numbers(seed))


@dataclass(frozen=True)
class Estimate:
    """A mean over random probes; error: its standard error."""

    value: float
    error: float
    probes: int


def trace(product: Product, like: Tensor, probes: int, seed: int, spectrum: Spectrum | None = None) -> Estimate:
    """The trace by Hutchinson's estimate: the mean of v' H v over vectors v of random signs.

    With a spectrum, the trace within its basis, which Lanczos has exactly, is taken from there, and the probes see only
    what is outside (Meyer et al., 2021): the largest eigenvalues, which make the estimate uncertain, are no part of it.
    like: (weights,)
    """
    basis = like.new_zeros(0, like.numel()) if spectrum is None else spectrum.basis
    inside = 0.0 if spectrum is None else spectrum.inside
    generator, found = numbers(seed), []
    for first in range(0, probes, AT_ONCE):
        signs = torch.randint(0, 2, (min(AT_ONCE, probes - first), like.numel()), generator=generator) * 2 - 1
        vectors = signs.to(like)
        vectors = vectors - (vectors @ basis.T) @ basis
        found.append((vectors * product(vectors)).sum(1).double().cpu())
    values = torch.cat(found)
    error = float(values.std() / len(values) ** 0.5) if len(values) > 1 else float("nan")
    return Estimate(inside + float(values.mean()), error, probes)
