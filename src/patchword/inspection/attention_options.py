"""Options of attention inspection: layers, heads, class and query pixel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchword.analysis.attention.maps import Layer
from patchword.core.errors import UserError, nearest
from patchword.layers.model import Model
from patchword.models.numbering import index_of

PREDICTED = "predicted"


@dataclass(frozen=True)
class AttentionOptions:
    """Options of attention inspection. layers, heads: counted from 1, -1 is the last layer;
    empty is all. at: the query pixel, as x and y.

    relevance: the name or number of a class, "predicted" for the predicted class, or "" for none.
    """

    layers: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    at: tuple[int, int] | None = None
    rollout: bool = True
    relevance: str = PREDICTED


def chosen_layers(found: Sequence[Layer], question: AttentionOptions) -> Iterator[tuple[int, Layer]]:
    """Yield the requested layers with their numbers; in a pyramid, only those that have the requested heads."""
    named = {index_of("layer", number, len(found)) + 1 for number in question.layers}
    chosen = [(number, found[number - 1]) for number in sorted(named) or range(1, len(found) + 1)]
    most = max(layer.heads for _, layer in chosen)
    for head in question.heads:
        if not 1 <= head <= most:
            where = f"layer {chosen[0][0]}" if len(chosen) == 1 else "a layer"
            raise UserError(f"there is no head {head}", expected=f"1 to {most} of {where}", got=head)
    yield from ((number, layer) for number, layer in chosen if chosen_heads(layer, question))


def chosen_heads(layer: Layer, question: AttentionOptions) -> list[int]:
    every = range(1, layer.heads + 1)
    return [head for head in every if head in (question.heads or every)]


def class_number(model: Model, name: str) -> int:
    labels, count = model.card.labels, int(model.card.config["classes"])
    if name in labels:
        return labels.index(name)
    if name.isdecimal() and int(name) < count:
        return int(name)
    hint = nearest(name, labels) if labels else ""
    raise UserError(f"the model has no class {name!r}", expected=f"{PREDICTED}, a name, or 0 to {count - 1}", hint=hint)
