"""Mean attention distance over depth: one dot per head, as in the ViT paper (Dosovitskiy et al., 2021, figure 7)."""

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from patchword.reports.colors import BLUE, ORANGE


def distance_figure(depths: Sequence[tuple[int, Tensor]], title: str, unit: str, whole: str) -> Figure:
    """Draw mean attention distances. depths: layer number and the distance of each head. whole: size of the input."""
    figure = Figure(figsize=(max(5.4, min(9.0, 0.42 * len(depths) + 2.4)), 3.8), layout="constrained")
    figure.suptitle(title, size=11, wrap=True)
    axes = figure.add_subplot(xlabel="layer (number)", ylabel=f"mean attention distance ({unit})")
    numbers = torch.cat([torch.full((len(heads),), float(number)) for number, heads in depths])
    axes.plot(numbers, torch.cat([heads for _, heads in depths]), "o", color=BLUE, alpha=0.65, label="one head")
    means = [float(heads.mean()) for _, heads in depths]
    axes.plot([number for number, _ in depths], means, "-", color=ORANGE, linewidth=1.4, label="mean of the heads")
    top = max(float(heads.max()) for _, heads in depths)
    axes.set_ylim(0, max(1.12 * top, 1e-6))
    axes.set_xlim(depths[0][0] - 0.5, depths[-1][0] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.annotate(whole, (0.99, 0.03), xycoords="axes fraction", ha="right", size=9)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure
