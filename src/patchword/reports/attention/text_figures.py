"""Slides of what a text model attends to: a matrix with words on both axes beside all layers and heads, and lines."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from patchword.inspection.attention_texts import TextAttention, TextLayerLook
from patchword.reports.attention.distances import distance_figure
from patchword.reports.attention.text_matrix import Matrix, draw_matrix, draw_sheet
from patchword.reports.colors import BLUE, style_of_number
from patchword.reports.plots.numbers import counted, shortened
from patchword.reports.plots.slide import MARGIN, Slide

_BAND = 0.6  # of a row: the lines of the heads are side by side in it, so that none hides another
_LEAST = 0.05  # lines of smaller attention weights are not drawn
_DEEPEST = 24  # up to this many tokens, all names are drawn at full size
_ASIDE, _MIDDLE = MARGIN + 1.75, 4.2  # inches: the left of a matrix beside a sheet, and of one alone


def text_figures(look: TextAttention, wanted: Sequence[str], hide_special: bool = False) -> dict[str, Figure]:
    """Return the figures by file name without an ending. wanted: of maps, rollout, relevance and distance."""
    note = _hidden(look) if hide_special else ""
    shown = look.without_special() if hide_special else look
    predicted = f"Predicted: {look.prediction}. " if look.prediction else ""
    found: dict[str, Figure] = {}
    if "maps" in wanted:
        found["maps"] = _maps(shown, f"{predicted}{note}")
        if len(look.layers) == 1:
            found["heads"] = _lines(shown, shown.layers[0])
    if "rollout" in wanted and shown.rollout is not None:
        slide = Slide(f"{look.model}: attention rollout through all layers", f"{predicted}{note}")
        draw_matrix(slide, Matrix(_words(shown), shown.rollout, "", "rollout"), _MIDDLE)
        found["rollout"] = slide
    if "relevance" in wanted and shown.relevance is not None:
        found["relevance"] = _bars(_words(shown), shown.relevance, f"{look.model}: relevance for {look.about}")
    if "distance" in wanted:
        depths = [(layer.number, layer.distance) for layer in look.layers]
        title, size = f"{look.model}: mean attention distance", f"the text has {counted(len(look.tokens), 'token')}"
        found["distance"] = distance_figure(depths, title, "tokens", size)
    return found


def _words(look: TextAttention) -> tuple[str, ...]:
    return look.words or look.tokens


def _hidden(look: TextAttention) -> str:
    """Return how much of the attention goes to the special tokens that are not drawn."""
    words = [place for place, special in enumerate(look.special) if not special]
    if len(words) in (0, len(look.special)):
        return ""
    kept = [float(layer.weights[:, words][:, :, words].sum(-1).mean()) for layer in look.layers]
    share = 1 - sum(kept) / len(kept)
    return f"Special tokens are hidden: {share:.0%} of the words' attention goes to them; rows are not rescaled."


def _maps(look: TextAttention, note: str) -> Slide:
    """Draw the last layer with words, and beside it a row per layer, a column per head; one head alone is large."""
    last = look.layers[-1]
    if len(look.layers) == len(last.heads) == 1:
        slide = Slide(f"{look.model}, layer {last.number}, head {last.heads[0]}: attention between tokens", note)
        draw_matrix(slide, Matrix(_words(look), last.weights[0], "", "attention"), _MIDDLE)
        return slide
    first = look.layers[0].number
    where = f"layer {first}" if first == last.number else f"layers {first} to {last.number}"
    slide = Slide(f"{look.model}, {where}: attention between {counted(len(look.tokens), 'token')}", note)
    title = f"layer {last.number}, mean of {counted(len(last.heads), 'head')}"
    draw_matrix(slide, Matrix(_words(look), last.weights.mean(0), title, "attention"), _ASIDE)
    draw_sheet(slide, look.layers)
    return slide


def _lines(look: TextAttention, layer: TextLayerLook) -> Figure:
    """Draw the head view: the tokens twice, and a line from each query to each key; one colour per head."""
    count = len(look.tokens)
    high = max(2.2, min(0.26 * count, 13)) + 1.1
    figure = Figure(figsize=(5.6, high), layout="constrained")
    figure.suptitle(f"{look.model}: layer {layer.number}, what each token attends to", size=11)
    axes = figure.add_subplot()
    for index, (head, weights) in enumerate(zip(layer.heads, layer.weights, strict=True)):
        queries, keys = (weights > _LEAST).nonzero(as_tuple=True)
        aside = _BAND * ((index + 0.5) / len(layer.weights) - 0.5)
        segments = [
            ((0, one + aside), (1, other + aside)) for one, other in zip(queries.tolist(), keys.tolist(), strict=True)
        ]
        strengths = weights[queries, keys].clamp(max=1).tolist()
        colour = to_rgb(style_of_number(head).color)
        drawn = LineCollection(segments, colors=[(*colour, strength) for strength in strengths])
        drawn.set_linewidth(1.6 if len(layer.weights) < 5 else 1.0)
        axes.add_collection(drawn)
    _named(axes, _words(look), min(10, 260 / max(count, 26)))
    handles = [Line2D([], [], color=style_of_number(head).color, label=f"head {head}") for head in layer.heads]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)), fontsize=9)
    return figure


def _named(axes: Axes, tokens: Sequence[str], size: float) -> None:
    names = [shortened(token, 18) for token in tokens]
    axes.set(xlim=(0, 1), ylim=(len(tokens) - 0.5, -0.9), ylabel="query token")
    axes.set_yticks(range(len(tokens)), names, size=size)
    right = axes.twinx()
    right.set(ylim=(len(tokens) - 0.5, -0.9), ylabel="key token")
    right.set_yticks(range(len(tokens)), names, size=size)
    axes.set_xticks([])
    for part in (axes, right):
        part.tick_params(length=0)
        part.grid(visible=False)
        for spine in part.spines.values():
            spine.set_visible(False)
    note = f"weights below {_LEAST:.0%} are not drawn"
    axes.set_xlabel(note, size=8.5)


def _bars(tokens: Sequence[str], values: Tensor, title: str) -> Figure:
    figure = Figure(figsize=(max(5.0, min(13.0, 0.34 * len(tokens) + 1.2)), 3.2), layout="constrained")
    figure.suptitle(title, size=11)
    axes = figure.add_subplot(xlabel="token", ylabel="relevance (relative to the largest)")
    axes.bar(range(len(tokens)), (values / values.max().clamp(min=1e-12)).numpy(), color=BLUE)
    size = 9 if len(tokens) <= _DEEPEST else 7 if len(tokens) < 50 else 4
    axes.set_xticks(range(len(tokens)), [shortened(token, 16) for token in tokens], rotation=90, size=size)
    axes.grid(visible=False, axis="x")
    return figure
