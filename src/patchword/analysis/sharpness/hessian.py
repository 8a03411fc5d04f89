"""The Hessian of a loss by Hessian-vector products: leading eigenvalues (Lanczos) and trace (Hutchinson)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

TOLERANCE = 1e-3  # an eigenvalue has converged when its residual is below this fraction of it
AT_ONCE = 4  # probes per pass over the sample

Product = Callable[[Tensor], Tensor]  # (count, weights) -> (count, weights)
SpectrumCallback = Callable[["Spectrum"], None]


@dataclass(frozen=True)
class Spectrum:
    """The state of Lanczos after some products.

    The residual |H v - value v| of a unit vector v bounds the error: an eigenvalue is within it of `value`. Where the
    next eigenvalue is a gap away, the error is the residual squared over the gap, which is far smaller.
    """

    values: Tensor  # (wanted,) float64, the largest first
    residuals: Tensor  # (wanted,)
    lowest: float
    lowest_residual: float
    basis: Tensor  # (products, weights) orthonormal
    inside: float  # the trace of the Hessian inside the basis
    mixes: Tensor  # (wanted, products) float64: the coefficients of each eigenvector in the basis
    history: tuple[tuple[float, ...], ...] = ()  # the leading estimates after each product

    @property
    def products(self) -> int:
        return len(self.history)

    @property
    def converged(self) -> list[bool]:
        return (self.residuals <= TOLERANCE * self.values.abs()).tolist()

    def vectors(self) -> Tensor:
        """(wanted, weights) unit vectors."""
        return self.mixes.to(self.basis) @ self.basis


def lanczos(
    product: Product, start: Tensor, wanted: int, most: int, on_spectrum: SpectrumCallback = lambda _: None
) -> Spectrum:
    """Compute the `wanted` largest eigenvalues with at most `most` products, fewer if all converge earlier.

    Every new vector is orthogonalised against all before it, twice: without that, rounding brings back copies of
    eigenvalues that were already found (Paige, 1971). When the Krylov space of the start is exhausted, it continues
    with a new direction, so that multiple eigenvalues are found with their multiplicity.
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
        exhausted = length <= 1e-6 * max(abs(value) for value in (*middle, *beside, 1e-30))
        found = _spectrum(middle, beside, length, wanted, basis[:count])
        history.append(tuple(found.values.tolist()))
        found = replace(found, history=tuple(history))
        on_spectrum(found)
        if count == most or (len(found.values) == wanted and all(found.converged) and not exhausted):
            return found
        beside.append(0.0 if exhausted else length)
        basis[count] = _orthogonal(basis[:count], count) if exhausted else image / length


def _spectrum(middle: list[float], beside: list[float], length: float, wanted: int, basis: Tensor) -> Spectrum:
    """Return the eigenvalues of the tridiagonal matrix that represents the Hessian in the basis."""
    diagonal, next_to = torch.tensor(middle, dtype=torch.float64), torch.tensor(beside, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(diagonal.diag() + next_to.diag(1) + next_to.diag(-1))
    values, vectors = values.flip(0), vectors.flip(1)
    rounding = torch.finfo(basis.dtype).eps * float(values.abs().max())
    residuals = (length * vectors[-1].abs()).clamp(min=rounding)
    lowest, lowest_residual = float(values[-1]), float(residuals[-1])
    leading = vectors[:, :wanted].T.contiguous()
    inside = float(diagonal.sum())
    return Spectrum(values[:wanted], residuals[:wanted], lowest, lowest_residual, basis, inside, leading)


def _orthogonal(basis: Tensor, seed: int) -> Tensor:
    """Return a random unit vector that is orthogonal to the basis."""
    vector: Tensor = normal(basis.shape[1], seed).to(basis)
    for _ in range(2):
        vector = vector - (basis @ vector) @ basis
    unit: Tensor = vector / vector.norm()
    return unit


def numbers(seed: int) -> torch.Generator:
    """Return a generator, the same on every machine, different from the one that draws a model's first weights."""
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
    """Estimate the trace by Hutchinson's method: the mean of v' H v over random sign vectors v.

    With a spectrum, the trace inside its basis is exact, and the probes only estimate the part outside (Hutch++, Meyer
    et al., 2021): the largest eigenvalues, which cause most of the variance, are not estimated. like: (weights,)
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
