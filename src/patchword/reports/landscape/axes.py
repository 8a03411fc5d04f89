"""Shared by the figures of loss landscapes: the data, the axes and the common scale."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from patchword.analysis.sharpness.landscape import Kind, LossLandscape
from patchword.reports.colors import TEXT

_WIDE = 10  # losses that differ by more than this factor are drawn on a logarithmic scale


@dataclass(frozen=True)
class RunLandscape:
    """The loss landscape of a run, and its description."""

    name: str
    sample: str
    loss_name: str
    has_accuracy: bool
    found: LossLandscape


def axis_label(kind: Kind, number: int) -> str:
    """Return the label of an axis, with its unit below."""
    unit = "(norm of the change of all weights)" if kind == "eigen" else "(1: each filter moves by its own norm)"
    return f"along {direction(kind, number)}\n{unit}"


def short_axis_label(kind: Kind, number: int) -> str:
    """Return a shorter label for the 3-D surface, which has less room."""
    return f"{direction(kind, number)}\n({'norm of the change' if kind == 'eigen' else 'norms of the filters'})"


def direction(kind: Kind, number: int) -> str:
    return f"the {('leading', 'second')[number]} eigenvector" if kind == "eigen" else f"random direction {number + 1}"


def sample_caption(figure: Figure, landscapes: Sequence[RunLandscape]) -> None:
    """Write below the figure over which samples the losses are means."""
    samples = dict.fromkeys(one.sample for one in landscapes)
    words = next(iter(samples)) if len(samples) == 1 else "\n".join(f"{one.name}: {one.sample}" for one in landscapes)
    figure.supxlabel(f"means over {words}", size=9, color=TEXT)


def scale(losses: np.ndarray) -> Normalize:
    """Return one colour scale for all runs."""
    finite = losses[np.isfinite(losses)]
    low, high = float(finite.min()), float(finite.max())
    if low > 0 and high > _WIDE * low:
        return LogNorm(low, high)
    return Normalize(low, high if high > low else low + 1e-9)


def few_numbers(axes: Axes) -> None:
    """Label a logarithmic axis with plain numbers."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
