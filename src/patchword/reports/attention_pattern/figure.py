"""The attention patterns of a model as a slide: a column per stage, or all panels of one stage."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.patches import Patch

from patchword.analysis.attention_pattern import AttentionPattern, by_stage, computed_density, density
from patchword.core.card import Card
from patchword.core.files import whole_file
from patchword.core.grid import sides
from patchword.reports.attention_pattern.descriptions import depth_of, percent, receptive_field, rule
from patchword.reports.attention_pattern.drawing import HATCHES, OUTSIDE, PADDING, draw
from patchword.reports.attention_pattern.panels import Panel, panels
from patchword.reports.colors import GREY, HIGHLIGHT, INDIRECT, INK, TEXT
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import counted
from patchword.reports.plots.slide import HEADING, HEIGHT, MARGIN, NOTE, TOP, WIDTH, Box, Slide
from patchword.reports.plots.text_width import fitting_size, wrapped

KINDS: tuple[Literal["svg", "png"], ...] = ("svg", "png")
_GAP, _FOOT, _FACTS = 0.35, 0.6, 2.5  # inches: between panels; of the legend; above the panels of an overview


def write_windows(
    card: Card, found: Sequence[AttentionPattern], place: tuple[int, int], folder: Path, stage: int = 0
) -> list[Path]:
    """Draw attention patterns as MODEL.svg and MODEL.png, or one stage as MODEL-stage-K; K counts from 1.

    place: row and column of the query on the map of the first stage
    """
    name = f"{card.model}-stage-{stage}" if stage else card.model
    with figure_style():
        figure = stage_figure(card, found, place, stage) if stage else overview(card, found, place)
        contents = {folder / f"{name}.{kind}": drawn(figure, kind) for kind in KINDS}
    with ExitStack() as both:
        for path, content in contents.items():
            both.enter_context(whole_file(path)).write_bytes(content)
    return list(contents)


def overview(card: Card, found: Sequence[AttentionPattern], place: tuple[int, int]) -> Slide:
    """Draw a column per stage with the patterns of its blocks and heads; of one stage, its own slide."""
    stages = by_stage(found)
    if len(stages) == 1:
        return stage_figure(card, found, place, 1)
    height, width = sides(card.config["image"])
    title = f"{card.model}, stages 1 to {len(stages)}: which tokens attend to which"
    slide = Slide(title, f"Image of {height} × {width} pixels\n{_summary(found)}")
    tokens = [stage[0].token_at(place, stages[0][0].grid) for stage in stages]
    columns = [
        [panel for panel in panels(stage, token) if not panel.detail]
        for stage, token in zip(stages, tokens, strict=True)
    ]
    wide, rows = _width_of_each(len(stages)), max(map(len, columns))
    high = (HEIGHT - _FOOT - _FACTS) / rows
    for number, (stage, token, column) in enumerate(zip(stages, tokens, columns, strict=True)):
        left = MARGIN + number * (wide + _GAP)
        slide.words(left, TOP + 0.1, f"stage {number + 1}", size=HEADING + 1, weight="bold")
        facts = f"{_tokens(stage)}; receptive field: {receptive_field(stage, token)}"
        slide.words(left, TOP + 0.4, wrapped(facts, wide, NOTE - 1), size=NOTE - 1)
        for row, panel in enumerate(column):
            _draw_small(slide, panel, (left, _FACTS + row * high, wide, high))
    slide.foot(_legend([panel for column in columns for panel in column]))
    return slide


def stage_figure(card: Card, found: Sequence[AttentionPattern], place: tuple[int, int], number: int) -> Slide:
    """Draw all panels of one stage in a row."""
    stages = by_stage(found)
    stage = stages[number - 1]
    token = stage[0].token_at(place, stages[0][0].grid)
    facts = f"{_tokens(stage)}, attention density {percent(density(stage))}"
    slide = Slide(
        f"{card.model}, stage {number} of {len(stages)}: {rule(stage)}",
        f"{facts}\nReceptive field of a token: {receptive_field(stage, token)}",
    )
    row = list(panels(stage, token))
    draw_row(slide, row, (MARGIN, TOP + 0.2, WIDTH - 2 * MARGIN, HEIGHT - _FOOT - TOP - 0.2))
    slide.foot(_legend(row))
    return slide


def _width_of_each(count: int) -> float:
    return (WIDTH - 2 * MARGIN - (count - 1) * _GAP) / count


def draw_row(slide: Slide, row: Sequence[Panel], box: Box) -> None:
    """Draw panels side by side, their titles and notes above them in as many lines as the longest needs."""
    left, top, width, height = box
    wide = (width - (len(row) - 1) * _GAP) / len(row)
    titles = [wrapped(panel.title, wide, HEADING + 1, bold=True) for panel in row]
    notes = [wrapped(panel.note, wide, HEADING - 1) for panel in row]
    line = 1.25 * (HEADING + 1) / 72
    below = top + line * max(text.count("\n") + 1 for text in titles)
    maps = below + line * max(text.count("\n") + 1 for text in notes)
    for column, (panel, title, note) in enumerate(zip(row, titles, notes, strict=True)):
        along = left + column * (wide + _GAP)
        slide.words(along, top, title, size=HEADING + 1, weight="bold")
        slide.words(along, below, note, size=HEADING - 1, color=TEXT)
        draw(slide.area((along, maps + 0.05, wide, top + height - maps - 0.15)), panel.shown)


def _draw_small(slide: Slide, panel: Panel, box: Box) -> None:
    """Draw a panel with its title above and its note to the right."""
    left, top, width, height = box
    title = fitting_size(panel.title, width, NOTE, bold=True)
    slide.words(left, top, panel.title, size=title, weight="bold")
    side = min(height - 0.42, 0.66 * width)
    draw(slide.area((left, top + 0.27, side / min(1, panel.shown.tall), side)), panel.shown)
    beside = left + side / max(1, panel.shown.tall) + 0.1
    slide.words(beside, top + 0.27, wrapped(panel.note, left + width - beside, NOTE - 2), size=NOTE - 2, color=TEXT)


def _summary(found: Sequence[AttentionPattern]) -> str:
    attended, computed = density(found), computed_density(found)
    if attended == computed == 1:
        return "Global attention: in every block, every token attends to every token"
    also = f" ({percent(computed)} are computed, with masked pairs and padding)" if computed > attended else ""
    return f"Attention density: {percent(attended)} of all token pairs{also}"


def _tokens(stage: Sequence[AttentionPattern]) -> str:
    grid = stage[0].grid
    leading = f" + {grid.prefix}" if grid.prefix else ""
    size = f"{grid.height} × {grid.width}{leading} = {counted(grid.tokens, 'token')}"
    return f"{size}, {counted(depth_of(stage), 'block')}"


def _legend(row: Sequence[Panel]) -> list[Patch]:
    hatches = np.unique(np.concatenate([panel.shown.hatches.flatten() for panel in row]))
    handles = [_patch(INK, INK, "query token"), _patch(HIGHLIGHT, INK, "attended tokens (keys)")]
    if any(panel.shown.indirect for panel in row):
        handles.append(_patch(INDIRECT, INDIRECT, "reached through the block before"))
    if hatches.max() > 0:
        handles.append(_patch(GREY, "white", "same window, other region: masked", HATCHES[1]))
    if PADDING in hatches:
        handles.append(_patch(*OUTSIDE, "padding", HATCHES[PADDING]))
    return handles


def _patch(face: str, edge: str, label: str, hatch: str = "") -> Patch:
    return Patch(facecolor=face, edgecolor=edge, label=label, hatch=hatch)
