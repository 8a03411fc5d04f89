"""The attention patterns of a model as one figure: a row per stage, a panel per pattern."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from patchword.analysis.attention_pattern import AttentionPattern, by_stage, computed_density, density
from patchword.core.card import Card
from patchword.core.files import whole_file
from patchword.core.grid import sides
from patchword.reports.attention_pattern.descriptions import depth_of, percent
from patchword.reports.attention_pattern.drawing import HATCHES, OUTSIDE, PADDING, draw
from patchword.reports.attention_pattern.maps import INDIRECT
from patchword.reports.attention_pattern.panels import Panel, panels
from patchword.reports.colors import INK, TEXT
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import counted

_KINDS: tuple[Literal["svg", "png"], ...] = ("svg", "png")
_MAP, _GAP, _TITLE, _MARGIN, _HEAD, _FOOT = 2.72, 0.23, 0.58, 1.6, 0.72, 0.4  # inches


def write_windows(card: Card, found: Sequence[AttentionPattern], place: tuple[int, int], folder: Path) -> list[Path]:
    """Draw the attention patterns of a model as MODEL.svg and MODEL.png; the query is at `place` of the first stage."""
    with figure_style():
        figure = _figure(card, found, place)
        contents = {folder / f"{card.model}.{kind}": drawn(figure, kind) for kind in _KINDS}
    with ExitStack() as both:
        for path, content in contents.items():
            both.enter_context(whole_file(path)).write_bytes(content)
    return list(contents)


def _figure(card: Card, found: Sequence[AttentionPattern], place: tuple[int, int]) -> Figure:
    stages = by_stage(found)
    rows = [list(panels(stage, stage[0].token_at(place, stages[0][0].grid))) for stage in stages]
    heights = [max(1.2, _MAP * min(1, max(panel.shown.tall for panel in row))) for row in rows]
    width = _MARGIN + max(len(row) for row in rows) * (_MAP + _GAP)
    height = _HEAD + sum(_TITLE + high + _GAP for high in heights) + _FOOT
    page = _Page(Figure(figsize=(width, height)))
    page.text(0.1, height - 0.32, _title(card), size=15, weight="bold")
    page.text(0.1, height - 0.6, _summary(found), size=10.5)
    top = height - _HEAD
    for stage, row, high in zip(stages, rows, heights, strict=True):
        top -= _TITLE
        page.facts(top, f"stage {stage[0].stage}", _facts(stage))
        for column, panel in enumerate(row):
            page.panel(_MARGIN + column * (_MAP + _GAP), top, high, panel)
        top -= high + _GAP
    page.legend(_legend(rows))
    return page.figure


class _Page:
    """Places things in inches from the lower left corner."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.width, self.height = figure.get_size_inches()

    def text(self, left: float, bottom: float, words: str, **style: Any) -> None:
        self.figure.text(left / self.width, bottom / self.height, words, **style)

    def facts(self, top: float, title: str, facts: Sequence[str]) -> None:
        self.text(0.1, top - 0.18, title, size=13, weight="bold")
        for line, fact in enumerate(facts):
            self.text(0.1, top - 0.48 - 0.22 * line, fact, size=9.5)

    def panel(self, left: float, top: float, high: float, panel: Panel) -> None:
        self.text(left, top + 0.29, panel.title, size=10.5, weight="bold")
        self.text(left, top + 0.1, panel.note, size=9, color=TEXT)
        box = (left / self.width, (top - high) / self.height, _MAP / self.width, high / self.height)
        draw(self.figure.add_axes(box), panel.shown)

    def legend(self, handles: Sequence[Patch]) -> None:
        corner = (0.1 / self.width, 0.1 / self.height)
        self.figure.legend(
            handles=handles, loc="lower left", bbox_to_anchor=corner, ncols=len(handles), fontsize=9.5, borderpad=0
        )


def _title(card: Card) -> str:
    height, width = sides(card.config["image"])
    return f"{card.model}: which tokens attend to which in an image of {height} × {width}"


def _summary(found: Sequence[AttentionPattern]) -> str:
    attended, computed = density(found), computed_density(found)
    if attended == computed == 1:
        return "Global attention: in every block, every token attends to every token."
    also = f" ({percent(computed)} are computed, with masked pairs and padding)" if computed > attended else ""
    return f"Attention density: {percent(attended)} of the token pairs of global attention{also}."


def _facts(stage: Sequence[AttentionPattern]) -> list[str]:
    grid = stage[0].grid
    leading = f" + {grid.prefix}" if grid.prefix else ""
    tokens = [f"{grid.height} × {grid.width}{leading}", f"= {counted(grid.tokens, 'token')}"]
    return [*tokens, counted(depth_of(stage), "block"), f"density {percent(density(stage))}"]


def _legend(rows: Sequence[Sequence[Panel]]) -> list[Patch]:
    hatches = np.unique(np.concatenate([panel.shown.hatches.flatten() for row in rows for panel in row]))
    handles = [_patch(INK, INK, "query token"), _patch("white", INK, "attended tokens (keys)")]
    if any(panel.shown.indirect for row in rows for panel in row):
        handles.append(_patch(INDIRECT, INDIRECT, "reached through the block before"))
    if hatches.max() > 0:
        handles.append(_patch("#8fa6b8", "white", "same window, other region: masked", HATCHES[1]))
    if PADDING in hatches:
        handles.append(_patch(*OUTSIDE, "padding", HATCHES[PADDING]))
    return handles


def _patch(face: str, edge: str, label: str, hatch: str = "") -> Patch:
    return Patch(facecolor=face, edgecolor=edge, label=label, hatch=hatch)
