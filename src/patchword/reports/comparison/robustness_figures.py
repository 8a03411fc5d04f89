"""Figures of robustness: accuracy over severity, and one image under every corruption."""

from collections.abc import Mapping

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from patchword.data.corruptions import CORRUPTIONS, GROUPS, SEVERITIES, corrupt
from patchword.inspection.robustness import Robustness
from patchword.reports.colors import BLUE, INK, ORANGE, style_of

_SHOWN = 3  # the severity of the sheet


def severity_figure(found: Robustness, title: str = "Accuracy under corruptions") -> Figure:
    """Draw a panel per group, a line per corruption, and the clean accuracy."""
    groups = {name: kinds for name, kinds in GROUPS.items() if any(kind in found.corrupted for kind in kinds)}
    across = min(2, len(groups))
    down = -(-len(groups) // across)
    figure = Figure(figsize=(4.9 * across + 0.6, 3.1 * down + 0.4), layout="constrained")
    figure.suptitle(title, size=11)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).flatten()
    for axes, (name, kinds) in zip(panels, groups.items(), strict=False):
        _lines(axes, name, {kind: found.corrupted[kind] for kind in kinds if kind in found.corrupted}, found.clean)
    for axes in panels[len(groups) :]:
        axes.axis("off")
    for place, axes in enumerate(panels[: len(groups)]):
        axes.set(xlabel="severity (1 to 5)", ylabel="accuracy (%)" if place % across == 0 else "")
        axes.tick_params(labelbottom=True)
    return figure


def _lines(axes: Axes, name: str, rows: Mapping[str, Mapping[int, float]], clean: float) -> None:
    axes.set_title(name, size=10.5)
    axes.axhline(100 * clean, color=INK, linestyle="--", linewidth=1, label=f"clean {100 * clean:.1f}")
    for kind, row in rows.items():
        colour, mark = style_of(kind)
        shown = [100 * value for value in row.values()]
        axes.plot(list(row), shown, color=colour, marker=mark, label=kind)
    axes.set_xticks(SEVERITIES)
    axes.set_ylim(0, 103)
    axes.legend(fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))  # beside the lines


def size_figure(found: Robustness, own: int, title: str = "Accuracy at other image sizes") -> Figure:
    """Draw accuracy over the image size; the run's own size is marked."""
    points = dict(sorted({**found.sizes, own: found.clean}.items()))
    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    figure.suptitle(title, size=11)
    axes = figure.add_subplot(xlabel="image size (pixels)", ylabel="accuracy (%)", ylim=(0, 103))
    axes.plot(list(points), [100 * value for value in points.values()], "o-", color=BLUE)
    axes.plot([own], [100 * found.clean], "o", color=ORANGE, markersize=9, label="training size")
    axes.set_xticks(list(points))
    figure.legend(fontsize=9, loc="outside lower center")
    return figure


def kinds_figure(pixels: Tensor, key: int, seed: int) -> Figure:
    """Draw one image (channels, height, width) uint8, clean and under each of the 15 corruptions."""
    side = max(pixels.shape[-2:])
    shown = {"clean": pixels} | {
        kind: corrupt(pixels[None], kind, _SHOWN, seed, torch.tensor([key]))[0] for kind in CORRUPTIONS
    }
    across, down = 4, 4
    figure = Figure(figsize=(7.2, 7.9 * pixels.shape[-2] / side + 0.6), layout="constrained")
    figure.suptitle(
        f"one test image of {pixels.shape[-1]} x {pixels.shape[-2]} pixels, severity {_SHOWN} of 5", size=11
    )
    for axes, (name, image) in zip(figure.subplots(down, across).flatten(), shown.items(), strict=True):
        values: np.ndarray = image.expand(3, -1, -1).permute(1, 2, 0).contiguous().cpu().numpy()
        axes.imshow(values, interpolation="nearest")
        axes.set_title(name, size=9.5)
        axes.axis("off")
    return figure
