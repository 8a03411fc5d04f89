"""Describes the attention patterns of models of texts in words."""

from collections.abc import Sequence

from patchword.analysis.attention_pattern import TextPattern
from patchword.analysis.attention_pattern.text import GLOBAL, RANDOM
from patchword.reports.plots.numbers import counted


def describe_text(pattern: TextPattern) -> str:
    """Return a short description of which tokens attend to which."""
    if bool((pattern.kinds == GLOBAL).any()):
        drawn = int((pattern.kinds == RANDOM).sum(1).max())
        random = f", {drawn} random" if drawn else ""
        return f"blocks of {pattern.unit}: 2 global, 3 in a window{random}"
    if pattern.is_causal:
        return "each token attends to itself and to all before it"
    if pattern.part == "memory":
        return "each token of the target attends to all tokens of the source"
    return "all tokens attend to all tokens"


def text_rule(part: Sequence[TextPattern]) -> str:
    """Return the kinds of attention of a part, in the order of its layers and heads."""
    return " and ".join(dict.fromkeys(describe_text(pattern) for pattern in part))


def whose(pattern: TextPattern) -> str:
    """Return the layers and heads of a pattern, e.g. "layers 1 to 12, 12 heads"."""
    first, last = pattern.layers[0], pattern.layers[-1]
    layers = f"layer {first}" if first == last else f"layers {first} to {last}"
    heads = f"head {pattern.heads[0]}" if len(pattern.heads) == 1 else counted(len(pattern.heads), "head")
    return f"{layers}, {heads}"
