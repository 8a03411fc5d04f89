"""What the pictures of loss surfaces share: what they are of, their axes and their one scale."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from patchword.analysis.sharpness.landscape import Kind, Surface

_WIDE = 10  # losses that differ by more than this are drawn on a logarithmic scale


@dataclass(frozen=True)
class Looked:
    """A run's surface, and what it is of."""

    name: str
    sample: str
    loss_name: str
    has_accuracy: bool
    found: Surface


def along(kind: Kind, number: int) -> str:
    """What an axis is, with its unit below."""
    unit = "(length of the change of all weights)" if kind == "eigen" else "(1: each filter moves by its own length)"
    return f"along {direction(kind, number)}\n{unit}"


def short(kind: Kind, number: int) -> str:
    """The same for the floor of a hill, which has less room."""
    return f"{direction(kind, number)}\n({'length of the change' if kind == 'eigen' else 'lengths of the filters'})"


def direction(kind: Kind, number: int) -> str:
    return f"the {('leading', 'second')[number]} eigenvector" if kind == "eigen" else f"random direction {number + 1}"


def below(figure: Figure, looked: Sequence[Looked]) -> None:
    """Which samples the losses are means over."""
    told = dict.fromkeys(one.sample for one in looked)
    words = next(iter(told)) if len(told) == 1 else "\n".join(f"{one.name}: {one.sample}" for one in looked)
    figure.supxlabel(f"means over {words}", size=9, color="#4d565f")


def scale(losses: np.ndarray) -> Normalize:
    """One for all runs."""
    finite = losses[np.isfinite(losses)]
    low, high = float(finite.min()), float(finite.max())
    if low > 0 and high > _WIDE * low:
        return LogNorm(low, high)
    return Normalize(low, high if high > low else low + 1e-9)


def few_numbers(axes: Axes) -> None:
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
