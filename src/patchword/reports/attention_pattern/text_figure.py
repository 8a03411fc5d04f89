"""The attention patterns of a model of texts as a slide: matrices of queries and keys, and the receptive field."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from patchword.analysis.attention_pattern import TextPattern, by_part, text_receptive_fields
from patchword.analysis.attention_pattern.text import ATTENDS, GLOBAL, NONE, RANDOM, WINDOW
from patchword.core.card import Card
from patchword.core.files import whole_file
from patchword.reports.attention_pattern.descriptions import percent
from patchword.reports.attention_pattern.drawing import TokenMap
from patchword.reports.attention_pattern.figure import KINDS as FILE_KINDS
from patchword.reports.attention_pattern.figure import draw_row
from patchword.reports.attention_pattern.panels import Panel
from patchword.reports.attention_pattern.text_descriptions import describe_text, text_rule, whose
from patchword.reports.colors import FAINT, HIGHLIGHT, INDIRECT, INK
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import counted
from patchword.reports.plots.slide import HEIGHT, MARGIN, TOP, WIDTH, Slide

_MOST_MATRICES = 3
_TINTS = {NONE: "#ffffff", ATTENDS: "#c9d2da", GLOBAL: "#9cc3e0", WINDOW: "#9fd8c6", RANDOM: "#c3bbdf"}
_NAMES = {GLOBAL: "global blocks", WINDOW: "window", RANDOM: "random blocks"}


def write_text_windows(card: Card, found: Sequence[TextPattern], token: int, folder: Path, part: int = 0) -> list[Path]:
    """Draw patterns as MODEL.svg and MODEL.png, or one part as MODEL-stage-K. part: from 1; 0: the first."""
    name = f"{card.model}-stage-{part}" if part else card.model
    with figure_style():
        slide = text_figure(card, found, token, part or 1)
        contents = {folder / f"{name}.{kind}": drawn(slide, kind) for kind in FILE_KINDS}
    with ExitStack() as both:
        for path, content in contents.items():
            both.enter_context(whole_file(path)).write_bytes(content)
    return list(contents)


def text_figure(card: Card, found: Sequence[TextPattern], token: int, number: int) -> Slide:
    """Draw the first patterns of one part in a row, and what a token depends on after each of its layers."""
    parts = by_part(found)
    part = parts[number - 1]
    first = part[0]
    row = min(token // first.unit, len(first.kinds) - 1)
    which = f", {first.part} ({number} of {len(parts)} parts)" if len(parts) > 1 else ""
    facts = f"{counted(first.tokens, 'token')}, {percent(first.pairs / first.all_pairs)} of all pairs attend"
    more = "" if len(part) <= _MOST_MATRICES else f"; {_MOST_MATRICES - 1} of {len(part)} patterns"
    slide = Slide(f"{card.model}{which}: {text_rule(part)}", f"{facts}{more}\n{_axes(first)}")
    panels = [_matrix(pattern, row, len(part) > 1) for pattern in _chosen(part)]
    if first.part != "memory":
        panels.append(_field(part, row))
    draw_row(slide, panels, (MARGIN, TOP + 0.2, WIDTH - 2 * MARGIN, HEIGHT - 0.8 - TOP))
    slide.foot(_legend(part))
    return slide


def _chosen(part: Sequence[TextPattern]) -> list[TextPattern]:
    """Return the patterns to draw; of many, one of the first layer and one of the second."""
    if len(part) <= _MOST_MATRICES:
        return list(part)
    return [part[0], next((pattern for pattern in part if 2 in pattern.layers), part[1])]


def _axes(pattern: TextPattern) -> str:
    where = f"blocks of {counted(pattern.unit, 'token')}" if pattern.unit > 1 else "tokens"
    return f"Rows are queries, columns are keys, both {where}, from the first to the last"


def _matrix(pattern: TextPattern, row: int, several: bool) -> Panel:
    kinds = pattern.kinds.numpy()
    palette = np.array([to_rgb(_TINTS[kind]) for kind in sorted(_TINTS)])
    colours, outlined = palette[kinds], np.zeros(kinds.shape, dtype=bool)
    outlined[row] = kinds[row] != NONE
    colours[outlined] = to_rgb(HIGHLIGHT)
    hatches = np.where(kinds == NONE, 1, 0) if pattern.is_causal else np.zeros(kinds.shape, dtype=np.int64)
    colours[hatches == 1] = to_rgb(FAINT)
    shown = TokenMap(colours, kinds.astype(np.int64), outlined, hatches, _diagonal(pattern, row))
    note = f"row {row + 1} attends to {int(outlined.sum())} of {kinds.shape[1]} columns"
    if several:
        return Panel(whose(pattern), note, shown)
    return Panel(describe_text(pattern), f"{whose(pattern)}: {note}", shown)


def _diagonal(pattern: TextPattern, row: int) -> tuple[int, int] | None:
    return None if pattern.part == "memory" else (row, row)


def _field(part: Sequence[TextPattern], row: int) -> Panel:
    """Draw the columns that a row depends on, a line per number of layers."""
    steps = np.stack([step.numpy() for step in text_receptive_fields(part, row)])
    direct = np.zeros_like(steps)
    direct[0] = steps[0]
    colours = np.tile(to_rgb(FAINT), (*steps.shape, 1))
    colours[steps] = to_rgb(INDIRECT)
    colours[direct] = to_rgb(HIGHLIGHT)
    none = np.zeros(steps.shape, dtype=np.int64)
    sizes = [int(step.sum()) for step in steps]
    all_at = next((number for number, size in enumerate(sizes, 1) if size == sizes[-1]), 1)
    note = f"{counted(sizes[0], 'column')} after 1 layer" + (f", {sizes[-1]} after {all_at}" if all_at > 1 else "")
    shown = TokenMap(colours, steps.astype(np.int64), steps, none, indirect=True)
    return Panel("receptive field of the row", f"line n: after n layers; {note}", shown)


def _legend(part: Sequence[TextPattern]) -> list[Patch]:
    found = {int(kind) for pattern in part for kind in pattern.kinds.unique()}
    handles = [Patch(facecolor=HIGHLIGHT, edgecolor=INK, label="keys of the query")]
    if part[0].part != "memory":
        handles.insert(0, Patch(facecolor=INK, edgecolor=INK, label="query"))
    for kind, name in _NAMES.items():
        if kind in found:
            handles.append(Patch(facecolor=_TINTS[kind], edgecolor=INK, label=name))
    if ATTENDS in found:
        handles.append(Patch(facecolor=_TINTS[ATTENDS], edgecolor=INK, label="pairs of other queries"))
    if any(pattern.is_causal for pattern in part):
        handles.append(Patch(facecolor=FAINT, edgecolor="white", hatch="/////", label="later tokens: masked"))
    if part[0].part != "memory":
        handles.append(Patch(facecolor=INDIRECT, edgecolor=INDIRECT, label="reached through earlier layers"))
    return handles
